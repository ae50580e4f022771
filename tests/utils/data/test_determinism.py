"""The same batches and the same random numbers for any number of workers, and as PyTorch where that is asked for."""

import random

import numpy
import pytest

import flambeau
from flambeau.utils import data
from flambeau.utils.data._utils import streams

from .helpers import Augmented, Shards, ThreadSafe, batches

pytestmark = pytest.mark.filterwarnings("ignore:DataLoader. . worker processes:UserWarning")


def two_epochs(dataset, workers, **options):
    """The batches of two epochs, and what the main process's streams give afterwards."""
    flambeau.manual_seed(3)
    random.seed(4)
    numpy.random.seed(5)
    numpy.random.randn()  # leaves the second number of a pair for later
    loader = data.DataLoader(dataset, num_workers=workers, **options)
    found = [batches(loader) for _ in range(2)]
    return found, flambeau.rand(1).item(), random.random(), numpy.random.randn(), numpy.random.rand()


@pytest.mark.parametrize("options", [
    {"batch_size": 4, "shuffle": True},
    {"batch_size": 5, "drop_last": True, "generator": 8},
    {"batch_size": None},
    {"batch_sampler": [[1, 2], [12], [0, 5, 3]]},
], ids=str)
def test_any_number_of_workers_gives_the_same(options):
    def run(workers):
        more = dict(options)
        if "generator" in more:
            more["generator"] = flambeau.Generator().manual_seed(more["generator"])
        return two_epochs(Augmented(), workers, **more)

    expected = run(0)
    assert expected[0][0] != expected[0][1]  # epochs differ
    for workers in range(1, 5):
        assert run(workers) == expected


@pytest.mark.parametrize("options", [
    {"persistent_workers": True}, {"prefetch_factor": 1}, {"prefetch_factor": 7}, {"timeout": 30},
], ids=str)
def test_how_workers_run_does_not_matter(options):
    assert two_epochs(Augmented(), 2, batch_size=3, shuffle=True, **options) == \
        two_epochs(Augmented(), 0, batch_size=3, shuffle=True)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_start_methods_give_the_same(method):
    assert two_epochs(Augmented(5), 1, batch_size=3, multiprocessing_context=method, persistent_workers=True) == \
        two_epochs(Augmented(5), 0, batch_size=3)


def test_any_order_has_the_same_batches():
    expected = two_epochs(Augmented(), 0, batch_size=2)[0]
    found = two_epochs(Augmented(), 3, batch_size=2, in_order=False)[0]
    assert [sorted(epoch, key=str) for epoch in found] == [sorted(epoch, key=str) for epoch in expected]


def test_threads_give_the_same_from_their_generator():
    expected = two_epochs(ThreadSafe(), 0, batch_size=2, shuffle=True)
    for workers in (1, 3):
        assert two_epochs(ThreadSafe(), workers, batch_size=2, shuffle=True, worker_method="thread") == expected
    assert two_epochs(ThreadSafe(), 2, batch_size=2, shuffle=True) == expected


def test_one_worker_iterates_as_the_main_process_does():
    assert two_epochs(Shards(), 1, batch_size=3) == two_epochs(Shards(), 0, batch_size=3)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_shards_come_in_turns(workers):
    found = batches(data.DataLoader(Shards(), 2, num_workers=workers))
    mine = [k for batch in found[::workers] for k in batch[0]]
    assert sorted(k for batch in found for k in batch[0]) == list(range(11))
    assert all(k % workers == 0 for k in mine[:2])
    assert two_epochs(Shards(), workers, batch_size=2) == two_epochs(Shards(), workers, batch_size=2)


def test_batch_size_of_iterables():
    assert [k for k, _ in batches(data.DataLoader(Shards(5), batch_size=None, num_workers=2))] == [0, 1, 2, 3, 4]
    assert [len(k) for k, _ in data.DataLoader(Shards(7), 2, drop_last=True, num_workers=2)] == [2, 2, 2]


def test_the_default_streams_are_left_alone_by_loading():
    flambeau.manual_seed(1)
    before = flambeau.rand(3).tolist(), flambeau.get_rng_state().tolist()
    for workers in (0, 1):
        flambeau.manual_seed(1)
        flambeau.rand(3)
        passing = iter(data.DataLoader(Augmented(), 4, num_workers=workers))
        state = flambeau.get_rng_state().tolist()  # the base seed has been drawn
        list(passing)
        assert flambeau.get_rng_state().tolist() == state != before[1]


@pytest.mark.parametrize("reached", [True, False], ids=["as memory", "as a tuple"])
def test_the_stream_of_random_is_given_back_whole(reached, monkeypatch):
    if not reached:
        monkeypatch.setattr(streams, "_memory_of", lambda stream: None)
    assert (streams._PythonStream()._address is not None) == reached
    random.seed(6)
    random.gauss(0, 1)  # leaves the second number of a pair for later
    state = random.getstate()
    list(data.DataLoader(Augmented(), 4))
    assert random.getstate() == state


def test_a_stream_that_lies_elsewhere_is_not_read_as_memory(monkeypatch):
    monkeypatch.setattr(random.Random, "getstate", lambda self: (3, (1,) * 625, None))
    assert streams._memory_of(random.Random(1)) is None


class Streams(data.Dataset):
    """What the streams give in a worker that PyTorch seeds; PyTorch's numbers are in the test."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return (flambeau.initial_seed(), flambeau.rand(1).item(), random.random(), float(numpy.random.rand()),
                data.get_worker_info().seed)


#: of PyTorch 2.13 for the same seed: initial_seed, rand, random, numpy, WorkerInfo.seed
PYTORCHS = [
    [[3325388913236545215] * 2, [0.5997255444526672, 0.3813360929489136], [0.10437156952704962, 0.6232503188452482],
     [0.7784028814550128, 0.478816008589975], [3325388913236545215] * 2],
    [[3325388913236545216] * 2, [0.5197429656982422, 0.7307243943214417], [0.08768933326737272, 0.8485979929604204],
     [0.8672182439354458, 0.6672144558146321], [3325388913236545216] * 2],
]


def test_seeds_of_workers_as_pytorchs():
    flambeau.manual_seed(11)
    loader = data.DataLoader(Streams(), batch_size=2, num_workers=2, seeding="worker")
    found = [[column.tolist() for column in batch] for batch in loader]
    assert found == PYTORCHS


@pytest.mark.parametrize("method", ["multiprocessing", "thread"])
def test_persistent_workers_draw_one_base_seed_as_pytorchs(method):
    """The orders and the number are of PyTorch 2.13. By default each pass draws a seed, with any workers."""
    orders = {"worker": [[0, 4, 3, 5, 2, 1], [5, 0, 3, 2, 1, 4], [2, 3, 1, 5, 4, 0]],
              "batch": [[0, 4, 3, 5, 2, 1], [2, 3, 1, 5, 4, 0], [5, 2, 0, 3, 1, 4]]}
    drawn = {"worker": 0.455627977848053, "batch": 0.022325754165649414}
    for seeding, expected in orders.items():
        flambeau.manual_seed(0)
        loader = data.DataLoader(range(6), 6, shuffle=True, num_workers=1, persistent_workers=True, seeding=seeding,
                                 worker_method=method)
        assert [batch for _ in range(3) for batch in batches(loader)] == expected
        assert flambeau.rand(1).item() == drawn[seeding]


def test_seeding_by_worker_leaves_the_main_process_to_its_own_streams():
    flambeau.manual_seed(1)
    found = batches(data.DataLoader(ThreadSafe(), 9, seeding="worker"))
    flambeau.manual_seed(1)
    data.DataLoader(ThreadSafe(), 9).__iter__()  # draws the base seed, as any pass does
    assert found[0][1] == [flambeau.rand(2).tolist() for _ in range(9)]


@pytest.mark.parametrize("replacement", [True, False])
def test_a_random_sampler_draws_its_seed_with_its_first_element(replacement):
    sampler, found = data.RandomSampler(range(20), replacement=replacement), []
    for _ in range(2):
        order = iter(sampler)
        flambeau.manual_seed(0)
        found.append(list(order))
    assert found[0] == found[1]
