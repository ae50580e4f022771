"""What holds for every datapipe: reading again, copies, one iterator at a time, counting, continuing; and PyTorch's."""

import json
import os
import pickle
import subprocess
import sys
import warnings
from itertools import chain

import pytest

import flambeau
from flambeau.utils.data import DataLoader
from flambeau.utils.data.datapipes.iter import IterableWrapper
from flambeau.utils.data.datapipes.utils.snapshot import _simple_graph_snapshot_restoration
from flambeau.utils.data.graph import traverse, traverse_dps
from flambeau.utils.data.graph_settings import apply_random_seed, apply_sharding, get_all_graph_pipes

from . import table


def made(name):
    return apply_random_seed(table.PIPES[name](IterableWrapper), flambeau.Generator().manual_seed(5))


def samples_of(name):
    return list(made(name))


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*other children have not been read")
        yield


@pytest.mark.parametrize("name", table.PIPES)
class TestEvery:
    def test_again(self, name):
        pipe = made(name)
        expected = list(pipe)
        again = list(apply_random_seed(pipe, flambeau.Generator().manual_seed(5)))
        assert again == expected

    def test_length(self, name):
        pipe = made(name)
        try:
            length = len(pipe)
        except TypeError:
            return
        assert length == len(list(pipe))

    def test_a_copy_is_the_same(self, name):
        pipe = made(name)
        assert list(pickle.loads(pickle.dumps(pipe))) == samples_of(name)
        partly = made(name)
        next(iter(partly))
        copy = apply_random_seed(pickle.loads(pickle.dumps(partly)), flambeau.Generator().manual_seed(5))
        assert list(copy) == samples_of(name)

    def test_one_iterator_at_a_time(self, name):
        pipe = made(name)
        first = iter(pipe)
        next(first)
        second = iter(pipe)
        next(second)
        with pytest.raises(RuntimeError, match="invalidated"):
            next(first)
        next(second)

    def test_samples_are_counted(self, name):
        pipe = made(name)
        assert len(list(pipe)) == pipe._number_of_samples_yielded
        samples = iter(pipe)
        next(samples), next(samples)
        assert pipe._number_of_samples_yielded == 2

    def test_continues_at_a_place(self, name):
        expected = samples_of(name)
        pipe = made(name)
        next(iter(pipe))
        copy = pickle.loads(pickle.dumps(pipe))
        _simple_graph_snapshot_restoration(copy, 2, flambeau.Generator().manual_seed(5))
        with pytest.raises(RuntimeError, match="already"):
            _simple_graph_snapshot_restoration(copy, 2)
        assert list(copy) == expected[2:]

    def test_the_graph_leads_to_sources(self, name):
        pipe = made(name)
        graph = traverse_dps(pipe)
        assert list(graph) == [id(pipe)] and graph[id(pipe)][0] is pipe
        pipes = get_all_graph_pipes(graph)
        assert pipes[0] is pipe and len({id(p) for p in pipes}) == len(pipes)
        assert any(isinstance(p, IterableWrapper) for p in pipes)
        assert {id(p) for p in pipes} == {id(p) for p in get_all_graph_pipes(traverse(pipe, only_datapipe=False))}

    def test_shares_are_the_whole(self, name):
        shares = []
        for reader in range(3):
            shared = table.PIPES[name](IterableWrapper)
            if name != "sharding":
                shared = shared.sharding_filter()
            apply_random_seed(shared, flambeau.Generator().manual_seed(5))
            shares.append(list(apply_sharding(shared, 3, reader)))
        together = [shares[k % 3][k // 3] for k in range(sum(map(len, shares)))]
        assert together == samples_of(name)


@pytest.mark.parametrize("options", [{}, {"num_workers": 2}, {"num_workers": 2, "worker_method": "thread"},
                                     {"num_workers": 2, "persistent_workers": True}], ids=str)
def test_loader(options):
    pipe = IterableWrapper(range(12)).shuffle().sharding_filter()
    flambeau.manual_seed(0)
    loader = DataLoader(pipe, batch_size=2, **options)
    epochs = [[batch.tolist() for batch in loader] for _ in range(2)]
    assert epochs[0] != epochs[1]
    for epoch in epochs:
        assert sorted(chain(*epoch)) == list(range(12))
    flambeau.manual_seed(0)
    assert [batch.tolist() for batch in DataLoader(pipe, batch_size=2, **options)] == epochs[0]
    ordered = [batch.tolist() for batch in DataLoader(pipe, batch_size=2, shuffle=False, **options)]
    assert list(chain(*ordered)) == (list(range(12)) if not options else [0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11])


@pytest.mark.parametrize("workers", [0, 2])
def test_loader_continues(workers):
    def loader():
        return DataLoader(IterableWrapper(range(12)).shuffle().sharding_filter(), batch_size=2, num_workers=workers)
    first = loader()
    batches = iter(first)
    next(batches)
    state = first.state_dict()
    rest = [batch.tolist() for batch in batches]
    other = loader()
    other.load_state_dict(state)
    assert [batch.tolist() for batch in other] == rest


def test_loader_shuffles_what_does_not():
    with pytest.warns(UserWarning, match="put at the end"):
        loader = DataLoader(IterableWrapper(range(8)), batch_size=None, shuffle=True)
    assert sorted(loader) == list(range(8))


@pytest.mark.parity
def test_pytorch_has_the_same_samples():
    python = os.environ.get("FLAMBEAU_TORCH_PYTHON", sys.executable)
    done = subprocess.run([python, table.__file__, "torch"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{python} has no PyTorch; set FLAMBEAU_TORCH_PYTHON to one that has")
    expected, found = json.loads(done.stdout), json.loads(json.dumps(table.results("flambeau")))
    assert found == expected
