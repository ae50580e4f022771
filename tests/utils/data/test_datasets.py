"""Datasets, samplers, loaders: PyTorch's orders for a seed, batches, errors."""

import collections
import json

import numpy
import pytest

import flambeau
from flambeau.utils import data

from ...optim.scenarios import GOLDEN, orders, weighted

EXPECTED = json.loads(GOLDEN.read_text())
Pair = collections.namedtuple("Pair", "a b")


class Squares(data.Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, index):
        return index**2


class Stream(data.IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return iter(range(self.n))

    def __len__(self):
        return self.n


def test_orders_are_pytorchs():
    assert orders(flambeau) == EXPECTED["orders"]


def test_weighted_orders_are_pytorchs():
    assert weighted(flambeau) == EXPECTED["weighted"]


def test_fast_path_equals_sample_by_sample():
    x, y = flambeau.randn(23, 3), flambeau.arange(23)
    samples = data.TensorDataset(x, y)
    parts = data.random_split(samples, [15, 8])
    for dataset in (samples, parts[0], data.Subset(parts[1], [0, 3, -1])):
        for fast, slow in zip(data.DataLoader(dataset, 4),
                              data.DataLoader(dataset, 4, collate_fn=lambda batch: data.default_collate(batch)),
                              strict=True):
            assert isinstance(fast, list)
            assert [t.tolist() for t in fast] == [t.tolist() for t in slow]


def test_overridden_getitem_is_respected():
    class Doubled(data.TensorDataset):
        def __getitem__(self, index):
            return tuple(2 * t for t in super().__getitem__(index))

        __getitems__ = None

    batch, = next(iter(data.DataLoader(Doubled(flambeau.arange(4)), 4)))
    assert batch.tolist() == [0, 2, 4, 6]


def test_collate():
    sample = {"x": flambeau.ones(2), "n": (1, 2.5, "s"), "np": numpy.arange(2), "pair": Pair(1, [2, 3]), "b": True}
    batch = data.default_collate([sample, sample])
    assert batch["x"].shape == (2, 2)
    assert batch["n"][0].dtype is flambeau.int64
    assert batch["n"][1].dtype is flambeau.float64
    assert batch["n"][2] == ("s", "s")
    assert batch["np"].tolist() == [[0, 1], [0, 1]]
    assert isinstance(batch["pair"], Pair)
    assert [t.tolist() for t in batch["pair"].b] == [[2, 2], [3, 3]]
    assert batch["b"].dtype is flambeau.bool
    assert data.default_collate([numpy.float32(1), numpy.float32(2)]).dtype is flambeau.float32
    with pytest.raises(RuntimeError, match="the lists of a batch must have one length"):
        data.default_collate([[1, 2], [3]])
    with pytest.raises(TypeError, match="default_collate"):
        data.default_collate([object()])
    with pytest.raises(TypeError, match="default_collate"):
        data.default_collate([numpy.array(["a"])])


def test_convert():
    converted = data.default_convert({"a": numpy.arange(2), "b": ["x", (1, numpy.float64(2))]})
    assert converted["a"].tolist() == [0, 1]
    assert converted["b"][0] == "x"
    assert converted["b"][1][1].item() == 2.0


def test_iterable_datasets():
    loader = data.DataLoader(Stream(10), 4)
    assert [b.tolist() for b in loader] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert len(loader) == 3
    assert len(data.DataLoader(Stream(10), 4, drop_last=True)) == 2
    assert [b.tolist() for b in data.DataLoader(Stream(10), 4, drop_last=True)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert list(data.DataLoader(Stream(3), batch_size=None)) == [0, 1, 2]
    assert list(Stream(2) + Stream(3)) == [0, 1, 0, 1, 2]


def test_datasets():
    both = Squares() + Squares()
    assert len(both) == 20
    assert both[-1] == 81
    assert both[12] == 4
    with pytest.raises(ValueError, match="is out of range for"):
        both[-21]
    with pytest.raises(IndexError):
        both[20]
    stacked = data.StackDataset(a=Squares(), b=range(10))
    assert stacked[3] == {"a": 9, "b": 3}
    assert data.StackDataset(Squares(), range(10)).__getitems__([1, 2]) == [(1, 1), (4, 2)]
    assert data.Subset(Squares(), [2, 4])[1] == 16
    samples = data.TensorDataset(flambeau.arange(3), flambeau.arange(3) * 2)
    assert [tuple(map(int, s)) for s in samples.__getitems__([2, 0])] == [(2, 4), (0, 0)]


def test_batches_without_and_with_samplers():
    assert list(data.DataLoader(Squares(), batch_size=None)) == [k**2 for k in range(10)]
    assert [b.tolist() for b in data.DataLoader(Squares(), batch_sampler=[[1, 2], [3]])] == [[1, 4], [9]]
    assert [b.tolist() for b in data.DataLoader(Squares(), 2, sampler=[5, 6, 7])] == [[25, 36], [49]]
    assert data.get_worker_info() is None


@pytest.mark.parametrize(("make", "error"), [
    (lambda: data.DataLoader(Squares(), sampler=[1], shuffle=True), ValueError),
    (lambda: data.DataLoader(Stream(3), shuffle=True), ValueError),
    (lambda: data.DataLoader(Stream(3), sampler=[1]), ValueError),
    (lambda: data.DataLoader(Squares(), batch_size=0), ValueError),
    (lambda: data.DataLoader(Squares(), num_workers=-1), ValueError),
    (lambda: data.DataLoader(Squares(), prefetch_factor=2), ValueError),
    (lambda: data.DataLoader(Squares(), persistent_workers=True), ValueError),
    (lambda: data.DataLoader(Squares(), timeout=-1), ValueError),
    (lambda: data.DataLoader(Squares(), batch_size=None, drop_last=True), ValueError),
    (lambda: data.DataLoader(Squares(), batch_sampler=[[1]], batch_size=2), ValueError),
    (lambda: data.random_split(Squares(), [1, 2]), ValueError),
    (lambda: data.random_split(Squares(), [-0.5, 1.5]), ValueError),
    (lambda: setattr(data.DataLoader(Squares()), "batch_size", 3), ValueError),
    (lambda: data.ConcatDataset([]), AssertionError),
    (lambda: data.TensorDataset(flambeau.ones(2), flambeau.ones(3)), AssertionError),
    (lambda: data.RandomSampler(Squares(), replacement=1), TypeError),
    (lambda: data.RandomSampler(Squares(), num_samples=-1), ValueError),
    (lambda: data.WeightedRandomSampler([[1.0]], 2), ValueError),
    (lambda: data.StackDataset(), ValueError),
    (lambda: data.StackDataset(range(2), range(3)), ValueError),
])
def test_bad_arguments(make, error):
    with pytest.raises(error):
        make()


def test_a_split_without_samples_warns():
    with pytest.warns(UserWarning, match="part 1 is empty"):
        data.random_split(Squares(), [1.0, 0.0])


@pytest.mark.parametrize("drop_last", [False, True])
def test_distributed_sampler(drop_last):
    parts = [data.DistributedSampler(range(7), 3, rank, seed=4, drop_last=drop_last) for rank in range(3)]
    seen = [list(part) for part in parts]
    assert [len(part) for part in parts] == [len(s) for s in seen] == [2 + (not drop_last)] * 3
    assert len({k for part in seen for k in part}) == (6 if drop_last else 7)
    parts[0].set_epoch(1)
    assert list(parts[0]) != seen[0]
    with pytest.raises(ValueError, match="rank"):
        data.DistributedSampler(range(7), 3, 3)
    with pytest.raises(ValueError, match="process group"):
        data.DistributedSampler(range(7))


def test_pipes():
    class Numbers(data.IterDataPipe):
        def __iter__(self):
            return iter(range(3))

    data.IterDataPipe.register_function("doubled", lambda pipe: [2 * k for k in pipe])
    assert Numbers().doubled() == [0, 2, 4]
    with pytest.raises(AttributeError):
        data.MapDataPipe().doubled()
