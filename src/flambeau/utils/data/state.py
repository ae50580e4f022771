"""The place of a loader in its data: what `state_dict` writes down and how a pass is continued from there.

The order of an epoch is not written down but drawn again: from the random streams as they were when the epoch began,
or from the sampler's own state if it has one. The batches that were already given are left out.
"""

import random
from contextlib import contextmanager
from itertools import chain, islice

import flambeau

from ..._shown import shown
from ._utils.streams import numpy_random
from .sampler import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

_VERSION = 1
_KNOWN = (BatchSampler, RandomSampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler)


class Progress:
    """Which batches of a pass have been given, and what its order was drawn from."""

    def __init__(self, base_seed=None, pipe_seed=None):
        self.base_seed, self.pipe_seed = base_seed, pipe_seed
        self.given = 0  # all batches with a smaller number
        self.beyond = set()  # and these; only where batches come in any order
        self.streams = None  # as they were before the first index was drawn
        self.snapshots = {}  # batch -> the sampler's state before its indices were drawn
        self.length = None  # of the pass, once its end has been seen
        self.finished = base_seed is None
        self.waited, self.begun, self.until = 0.0, None, None  # seconds, and times of the clock

    def give(self, task):
        """Batch `task` has reached the user, or never will."""
        if self.has(task):
            return
        self.beyond.add(task)
        while self.given in self.beyond:
            self.beyond.remove(self.given)
            self.snapshots.pop(self.given, None)
            self.given += 1

    def has(self, task):
        """Whether batch `task` was given."""
        return task < self.given or task in self.beyond


def _generators(loader):
    """Generators of the loader and its samplers, apart from the default one, by where they are."""
    sampler, batch_sampler = loader.sampler, loader.batch_sampler
    places = {"loader": loader, "sampler": sampler, "batch_sampler": batch_sampler,
              "sampler of batch_sampler": getattr(batch_sampler, "sampler", None)}
    found = {name: getattr(place, "generator", None) for name, place in places.items()}
    return {name: g for name, g in found.items() if isinstance(g, flambeau.Generator)}


def _own_streams(loader):
    return {name: generator.get_state() for name, generator in _generators(loader).items()}


def _set_own_streams(loader, found):
    for name, generator in _generators(loader).items():
        if name in found:
            generator.set_state(found[name])


def _default_streams(loader):
    """States of the streams that no loader owns; those of Python and NumPy only where the user's code draws indices."""
    found = {"default": flambeau.get_rng_state()}
    samplers = (loader.sampler, loader.batch_sampler, getattr(loader.batch_sampler, "sampler", None))
    if all(sampler is None or type(sampler) in _KNOWN for sampler in samplers):
        return found
    version, words, second = random.getstate()
    found["python"] = [version, flambeau.tensor(words, dtype=flambeau.int64), second]
    numpy = numpy_random()
    if numpy is not None:
        kind, words, *rest = numpy.get_state()
        found["numpy"] = [str(kind), flambeau.from_numpy(words.astype("int64")), *map(float, rest)]
    return found


def _set_default_streams(found):
    flambeau.set_rng_state(found["default"])
    if "python" in found:
        version, words, second = found["python"]
        random.setstate((version, tuple(words.tolist()), second))
    if "numpy" in found and (numpy := numpy_random()):
        kind, words, position, has_second, second = found["numpy"]
        numpy.set_state((kind, words.numpy().astype("uint32"), int(position), int(has_second), second))


def streams_of(loader):
    """All streams that the order of an epoch may be drawn from, as plain data."""
    return {"own": _own_streams(loader), **_default_streams(loader)}


@contextmanager
def drawn_again(loader, streams):
    """Context in which the streams are where `streams` has them; the default ones are put back, a loader's own are not.
    """
    now = _default_streams(loader)
    _set_own_streams(loader, streams["own"])
    _set_default_streams(streams)
    try:
        yield
    finally:
        _set_default_streams(now)


def stateful_sampler(loader):
    """The sampler that can say itself where it is, or None."""
    for sampler in (loader.batch_sampler, getattr(loader.batch_sampler, "sampler", None), loader.sampler):
        if callable(getattr(sampler, "state_dict", None)) and callable(getattr(sampler, "load_state_dict", None)):
            return sampler
    return None


def saved(loader, progress):
    """The state_dict of a loader."""
    if progress is None or progress.finished:
        return {"version": _VERSION, "base_seed": None}
    state = {"version": _VERSION, "base_seed": progress.base_seed, "given": progress.given,
             "beyond": sorted(progress.beyond), "length": progress.length}
    if loader._iterable:
        state["workers"] = loader.num_workers
        state["pipe_seed"] = progress.pipe_seed
    else:
        state["streams"] = progress.streams or {"own": _own_streams(loader)}  # nothing drawn yet
    epoch = getattr(loader.sampler, "epoch", None)
    if isinstance(epoch, int):
        state["epoch"] = epoch
    if progress.given in progress.snapshots:
        state["sampler"] = progress.snapshots[progress.given]
    return state


def restored(loader, state):
    """The progress that a state_dict describes, or None if it was taken between two passes."""
    if not isinstance(state, dict) or state.get("version") != _VERSION:
        raise ValueError(f"DataLoader.load_state_dict: expected what state_dict returned, got {shown(state)}")
    if state["base_seed"] is None:
        return None
    if loader._iterable and max(state.get("workers", 0), 1) != max(loader.num_workers, 1):
        raise ValueError(f"DataLoader.load_state_dict: the state was taken with {shown(state.get('workers'))} workers, "
                         f"this loader has {loader.num_workers}; the workers of an IterableDataset each have their own "
                         "samples, so their number must be the same")
    progress = Progress(state["base_seed"], state.get("pipe_seed"))
    progress.given, progress.beyond, progress.streams = state["given"], set(state["beyond"]), state.get("streams")
    progress.length = state["length"]
    if progress.streams is not None and "default" not in progress.streams:
        _set_own_streams(loader, progress.streams["own"])
        progress.streams = None
    if "sampler" in state:
        progress.snapshots = {progress.given: state["sampler"]}
    if "epoch" in state and hasattr(loader.sampler, "set_epoch"):
        loader.sampler.set_epoch(state["epoch"])
    return progress


def numbered_batches(loader, progress):
    """(number, indices) of the batches of a pass that `progress` still lacks, drawn as they are asked for.

    Of an iterable dataset all of them: what was given must be read again to come to the rest.
    """
    sampler = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    if loader._iterable:
        return enumerate(sampler)
    stateful = stateful_sampler(loader)
    first = progress.given
    if first in progress.snapshots and stateful is not None:
        stateful.load_state_dict(progress.snapshots[first])
        indices = iter(()) if first == progress.length else iter(sampler)
    elif progress.streams is None:
        progress.streams = streams_of(loader)
        indices = iter(sampler)
    else:
        with drawn_again(loader, progress.streams):  # one more than was given: samplers draw when they are first asked
            indices = iter(sampler)
            ahead = list(islice(indices, first + 1))[first:]
        indices = chain(ahead, indices)
    return _numbered(indices, first, progress, stateful)


def _numbered(indices, number, progress, stateful):
    for batch in indices if stateful is None else _noted(indices, number, progress, stateful):
        if not progress.has(number):
            yield number, batch
        number += 1


def _noted(indices, number, progress, sampler):
    """The batches of a sampler whose state is noted after each; drawn one ahead, since its state may not tell its end.
    """
    progress.snapshots[number] = sampler.state_dict()
    batch = next(indices, None)
    while batch is not None:
        number += 1
        progress.snapshots[number] = sampler.state_dict()
        following = next(indices, None)
        if following is None:
            progress.length, progress.snapshots[number] = number, sampler.state_dict()
        yield batch
        batch = following
