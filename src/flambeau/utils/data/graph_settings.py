"""Settings that concern several datapipes at once: shares of several readers, shuffling, seeds."""

import inspect
import warnings

import flambeau

from .datapipes.iter.sharding import SHARDING_PRIORITIES, _ShardingIterDataPipe
from .graph import traverse_dps
from .sampler import fresh_seed


def get_all_graph_pipes(graph):
    """The datapipes of a graph that `traverse_dps` made, each once, those nearest to the end first."""
    found = {}
    _collect(graph, found)
    return list(found.values())


def _collect(graph, found):
    for key, (pipe, below) in graph.items():
        if key not in found:
            found[key] = pipe
            _collect(below, found)


def _has_methods(pipe, *names):
    return all(inspect.ismethod(getattr(pipe, name, None)) for name in names)


def apply_sharding(datapipe, num_of_instances, instance_id, sharding_group=SHARDING_PRIORITIES.DEFAULT):
    """Tells the pipes that share out samples (`sharding_filter`) that this is reader `instance_id` of so many.

    RuntimeError where a sample would be shared out twice on its way.

    >>> from flambeau.utils.data.graph_settings import apply_sharding
    >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
    >>> list(apply_sharding(IterableWrapper(range(7)).sharding_filter(), 3, 1))
    [1, 4]
    """
    _shard(traverse_dps(datapipe), (num_of_instances, instance_id), sharding_group, None)
    return datapipe


def _shard(graph, share, group, after):
    for pipe, below in graph.values():
        shared = isinstance(pipe, _ShardingIterDataPipe) or _has_methods(pipe, "apply_sharding")
        if shared and after is not None:
            raise RuntimeError(f"apply_sharding: samples would be shared out twice: {type(after).__name__} reads from "
                               f"{type(pipe).__name__}, and both share out samples; keep one of them")
        if shared:
            group_too = {"sharding_group": group} if _takes_group(pipe) else {}
            pipe.apply_sharding(*share, **group_too)
        _shard(below, share, group, pipe if shared else after)


def _takes_group(pipe):
    return isinstance(pipe, _ShardingIterDataPipe) or \
        "sharding_group" in inspect.signature(pipe.apply_sharding).parameters


def apply_shuffle_settings(datapipe, shuffle=None):
    """Turns every `shuffle` step on or off; where there is none and shuffle=True, one is put at the end.

    >>> from flambeau.utils.data.graph_settings import apply_shuffle_settings
    >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
    >>> list(apply_shuffle_settings(IterableWrapper(range(3)).shuffle(), False))
    [0, 1, 2]
    """
    if shuffle is None:
        return datapipe
    shufflers = [p for p in get_all_graph_pipes(traverse_dps(datapipe)) if _has_methods(p, "set_shuffle", "set_seed")]
    if shuffle and not shufflers:
        warnings.warn(f"apply_shuffle_settings: shuffle=True, but {type(datapipe).__name__} and what it reads from "
                      "have no shuffle step: one is put at the end. Say .shuffle() where it belongs, before batches "
                      "and shares",
                      UserWarning, stacklevel=2)
        datapipe = datapipe.shuffle()
        shufflers = [datapipe]
    for pipe in shufflers:
        pipe.set_shuffle(shuffle)
    return datapipe


def apply_random_seed(datapipe, rng):
    """Gives every random step (one with `set_seed`) a seed drawn from the generator `rng`, or the default one for None.

    >>> import flambeau
    >>> from flambeau.utils.data.graph_settings import apply_random_seed
    >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
    >>> list(apply_random_seed(IterableWrapper(range(6)).shuffle(), flambeau.Generator().manual_seed(0)))
    [1, 3, 0, 2, 5, 4]
    """
    for pipe in get_all_graph_pipes(traverse_dps(datapipe)):
        if _has_methods(pipe, "set_seed"):
            pipe.set_seed(fresh_seed(rng))
    return datapipe


def apply_shuffle_seed(datapipe, rng):
    """apply_random_seed(datapipe, rng)."""
    warnings.warn("apply_shuffle_seed is an older name of apply_random_seed", FutureWarning, stacklevel=2)
    return apply_random_seed(datapipe, rng)


def seeded(datapipe, seed):
    """apply_random_seed with a generator of that seed."""
    return apply_random_seed(datapipe, flambeau.Generator().manual_seed(seed))
