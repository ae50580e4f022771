"""A loader continues exactly where another one was, at every batch, with any number of workers."""

import random

import pytest

import flambeau
from flambeau.utils import data

from .helpers import Augmented, Shards, batches, plain

pytestmark = pytest.mark.filterwarnings("ignore:DataLoader. . worker processes:UserWarning")


class Shuffled(data.Sampler):
    """A user's sampler that draws from Python's stream."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        order = list(range(self.n))
        random.shuffle(order)
        return iter(order)

    def __len__(self):
        return self.n


class Counting(Shuffled):
    """A user's sampler that draws as it goes and knows where it is."""

    def __init__(self, n):
        super().__init__(n)
        self.generator_of_mine = flambeau.Generator().manual_seed(2)
        self.at = 0

    def __iter__(self):
        while self.at < self.n:
            self.at += 1
            yield flambeau.randint(0, self.n, (), generator=self.generator_of_mine).item()
        self.at = 0

    def state_dict(self):
        return {"at": self.at, "stream": self.generator_of_mine.get_state()}

    def load_state_dict(self, state):
        self.at = state["at"]
        self.generator_of_mine.set_state(state["stream"])


MAKES = {
    "shuffle": lambda: {"shuffle": True},
    "generator": lambda: {"shuffle": True, "generator": flambeau.Generator().manual_seed(5)},
    "replacement": lambda: {"sampler": data.RandomSampler(range(13), True, 40,
                                                          flambeau.Generator().manual_seed(1))},
    "weighted": lambda: {"sampler": data.WeightedRandomSampler([1.0] * 13, 13)},
    "python": lambda: {"sampler": Shuffled(13)},
    "stateful": lambda: {"sampler": Counting(13)},
    "distributed": lambda: {"sampler": data.DistributedSampler(range(13), 2, 1)},
}


def loader_of(kind, workers, **options):
    return data.DataLoader(Augmented(13), 3, num_workers=workers, **MAKES[kind](), **options)


def stopped(loader, after):
    """(its state after `after` batches, the streams then, what comes afterwards: the rest and another epoch)."""
    passing = iter(loader)
    for _ in range(after):
        next(passing)
    state, stream = loader.state_dict(), (flambeau.get_rng_state(), random.getstate())
    rest = [plain(batch) for batch in passing]
    return state, stream, rest, batches(loader)


@pytest.mark.parametrize("kind", MAKES)
@pytest.mark.parametrize("workers", [(0, 0), (0, 2), (2, 0), (1, 3)], ids=lambda w: "{}to{}".format(*w))
def test_resume(kind, workers, tmp_path):
    before, after = workers
    length = len(loader_of(kind, 0))
    everywhere = before == 0 and (after == 0 or kind == "shuffle")  # starting workers is what takes the time
    for k in range(length + 1) if everywhere else (1, length - 1):
        flambeau.manual_seed(7)
        random.seed(8)
        state, streams, rest, another = stopped(loader_of(kind, before), k)
        flambeau.save(state, tmp_path / "state.pt")
        loader = loader_of(kind, after)
        loader.load_state_dict(flambeau.load(tmp_path / "state.pt"))
        flambeau.set_rng_state(streams[0])
        random.setstate(streams[1])
        assert batches(loader) == rest
        assert batches(loader) == another


def test_a_state_can_be_taken_before_the_resumed_pass_begins():
    loader, other, third = (loader_of("shuffle", 0) for _ in range(3))
    state, _, rest, _ = stopped(loader, 2)
    other.load_state_dict(state)
    third.load_state_dict(other.state_dict())
    assert batches(third) == rest
    assert third.state_dict() == loader_of("shuffle", 0).state_dict()


def test_resume_of_batches_in_any_order():
    flambeau.manual_seed(7)
    whole = batches(loader_of("shuffle", 0))
    flambeau.manual_seed(7)
    loader = loader_of("shuffle", 2, in_order=False)
    passing = iter(loader)
    seen = [plain(next(passing)) for _ in range(2)]
    other = loader_of("shuffle", 0)
    other.load_state_dict(loader.state_dict())
    assert sorted(seen + batches(other), key=str) == sorted(whole, key=str)


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_resume_of_iterables(workers):
    for k in range(5) if workers < 2 else (0, 1, 4):
        flambeau.manual_seed(7)
        loader = data.DataLoader(Shards(), 3, num_workers=workers)
        state, _, rest, _ = stopped(loader, k)
        other = data.DataLoader(Shards(), 3, num_workers=workers, prefetch_factor=1 if workers else None)
        other.load_state_dict(state)
        assert batches(other) == rest


def test_what_cannot_be_resumed():
    loader = data.DataLoader(Shards(), 3, num_workers=2)
    state, *_ = stopped(loader, 1)
    with pytest.raises(ValueError, match="with 2 workers, this loader has 3"):
        data.DataLoader(Shards(), 3, num_workers=3).load_state_dict(state)
    for wrong in ({}, None, {"version": 99}):
        with pytest.raises(ValueError, match="load_state_dict"):
            data.DataLoader(Shards(), 3).load_state_dict(wrong)


def test_the_epoch_of_a_distributed_sampler_is_resumed():
    def make():
        return data.DataLoader(range(20), 2, sampler=data.DistributedSampler(range(20), 2, 0))

    loader = make()
    loader.sampler.set_epoch(3)
    state, _, rest, _ = stopped(loader, 2)
    other = make()
    other.load_state_dict(state)
    assert batches(other) == rest and other.sampler.epoch == 3
