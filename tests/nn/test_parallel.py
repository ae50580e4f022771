"""nn.parallel and SyncBatchNorm on the one device there is."""

import warnings
from collections import namedtuple

import pytest

import flambeau
from flambeau import nn
from flambeau.nn import parallel
from flambeau.nn.parallel import _functions


def test_data_parallel_is_the_module_itself():
    m = nn.Linear(3, 2)
    d, x = nn.DataParallel(m), flambeau.randn(4, 3)
    assert d.module is m and list(d.state_dict()) == ["module.weight", "module.bias"]
    assert flambeau.equal(d(x), m(x)) and flambeau.equal(parallel.data_parallel(m, x), m(x))
    with pytest.raises(ValueError, match="there is no group"):
        parallel.DistributedDataParallel(m)


def test_scatter_and_gather():
    Pair = namedtuple("Pair", "x y")
    x = flambeau.arange(6)
    given = {"a": Pair(x, [x, 3]), "b": None}
    parts = parallel.scatter(given, ["cpu", "cpu"])
    assert parts[1]["a"].x.tolist() == [3, 4, 5] and parts[0]["a"].y[1] == 3
    back = parallel.gather([{"a": Pair(p["a"].x, (p["a"].x, None))} for p in parts], "cpu")
    assert flambeau.equal(back["a"].x, x) and back["a"].y[1] is None
    args, kwargs = parallel.scatter_kwargs((x,), {"k": x}, ["cpu", "cpu", "cpu"])
    assert len(args) == len(kwargs) == 3 and args[2][0].tolist() == [4, 5] and kwargs[0]["k"].tolist() == [0, 1]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert parallel.gather([x[0], x[1]], "cpu").tolist() == [0, 1]
    assert "no dim 0 to join" in str(seen[0].message)


def test_replicate_and_apply():
    m = nn.Linear(3, 2)
    copies = parallel.replicate(m, ["cpu", "cpu"])
    assert copies[0].weight is m.weight and copies[0] is not copies[1]
    x = flambeau.randn(4, 3)
    results = parallel.parallel_apply(copies, [x[:2], (x[2:],)])
    assert flambeau.allclose(parallel.gather(results, "cpu"), m(x))
    with pytest.raises(AssertionError):
        parallel.parallel_apply(copies, [x])


def test_sync_batch_norm():
    m = nn.Sequential(nn.BatchNorm2d(3), nn.Sequential(nn.BatchNorm1d(2, affine=False, momentum=None))).eval()
    s = nn.SyncBatchNorm.convert_sync_batchnorm(m)
    assert type(s[0]) is type(s[1][0]) is nn.SyncBatchNorm and s[0].weight is m[0].weight and not s[0].training
    assert s[0].running_mean is not None and s[1][0].momentum is None
    x = flambeau.randn(2, 3, 4, 4)
    assert flambeau.equal(s[0].train()(x), nn.BatchNorm2d(3)(x))
    with pytest.raises(ValueError, match="input must have"):
        s[0](flambeau.ones(3))


def test_functions_of_wrappers():
    places = ["cpu", "cpu"]
    x, y = (flambeau.randn(3, 2, dtype=flambeau.float64, requires_grad=True) for _ in range(2))
    scale = flambeau.tensor(2.0, dtype=flambeau.float64, requires_grad=True)
    for function, inputs in (
            (lambda x: _functions.Scatter.apply(places, None, 0, x), (x,)),
            (lambda x: _functions.Scatter.apply(places, [2, 1], 0, x), (x,)),
            (lambda x, y: _functions.Gather.apply("cpu", 1, x, y), (x, y)),
            (lambda a, b: _functions.Gather.apply("cpu", 0, a, b), (scale, scale.detach().clone().requires_grad_())),
            (lambda x, y: _functions.Broadcast.apply(places, x, y), (x, y)),
            (lambda x, y: _functions.ReduceAddCoalesced.apply("cpu", 1, x, y), (x, y))):
        assert flambeau.autograd.gradcheck(function, inputs)
    assert [p.tolist() for p in _functions.Scatter.apply(places, [1, 2], 0, flambeau.arange(3))] == [[0], [1, 2]]
    assert _functions.Gather.apply("cpu", 0, scale, scale).tolist() == [2, 2]
    copies = _functions.Broadcast.apply(places, x, y.detach())
    assert [c.requires_grad for c in copies] == [True, False, True, False]
    assert _functions.Broadcast.apply(places) == () and _functions._get_stream(flambeau.device("cpu")) is None
