"""Sorting, selection, distinct elements and counting."""

import numpy as np
import pytest

import flambeau

NAN = float("nan")
RNG = np.random.default_rng(0)
ARRAYS = [RNG.standard_normal((3, 700)), RNG.integers(-5, 6, (3, 700)),
          RNG.standard_normal((700, 3)).astype(np.float32),
          RNG.integers(0, 250, (4, 30)).astype(np.uint8), RNG.integers(0, 2, (4, 30)).astype(bool),
          RNG.integers(-(2 ** 62), 2 ** 62, (2, 900))]


@pytest.mark.parametrize("a", ARRAYS, ids=lambda a: f"{a.dtype}{a.shape}")
@pytest.mark.parametrize("dim", [0, 1])
def test_sort_is_stable(a, dim):
    x = flambeau.from_numpy(a)
    values, indices = x.sort(dim)
    order = np.argsort(a, axis=dim, kind="stable")
    assert (indices.numpy() == order).all() and (values.numpy() == np.take_along_axis(a, order, dim)).all()
    values, indices = flambeau.sort(x, dim=dim, descending=True, stable=True)
    wide = a.astype(np.int64) if a.dtype != np.float64 and a.dtype.kind != "f" else a
    order = np.argsort(-wide if wide.dtype.kind == "f" else ~wide, axis=dim, kind="stable")
    assert (indices.numpy() == order).all()


@pytest.mark.parametrize("a", ARRAYS, ids=lambda a: f"{a.dtype}{a.shape}")
def test_topk(a):
    x = flambeau.from_numpy(a)
    for k in (0, 1, 3):
        values, indices = x.topk(k, 1)
        assert (values.numpy() == np.sort(a, 1)[:, ::-1][:, :k]).all()
        assert (np.take_along_axis(a, indices.numpy(), 1) == values.numpy()).all()
        assert (x.topk(k, 1, largest=False).values.numpy() == np.sort(a, 1)[:, :k]).all()


def test_nan_is_largest_and_zeros_are_equal():
    x = flambeau.tensor([NAN, 1.0, -0.0, 0.0, NAN, float("inf")])
    assert x.sort().indices.tolist() == [2, 3, 1, 5, 0, 4]
    assert x.sort(descending=True).indices.tolist() == [0, 4, 5, 1, 2, 3]
    assert x.median().isnan() and x.nanmedian().item() == 0.0 and x.topk(1).indices.item() in (0, 4)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64", "bfloat16", "float32", "float64"])
def test_few_of_long_rows_are_the_first_of_all_in_order(dtype):
    x = flambeau.randint(0, 100, (2, 3, 300)).to(getattr(flambeau, dtype))
    if x.is_floating_point():
        x[0, 1, 7] = x[0, 1, 200] = x[1, 2, 0] = NAN
    for t in (x, flambeau.cat([x, x], 2)[..., 299:599], x.flip(0), x.mT.contiguous().mT):
        for largest in (False, True):
            few, all_of_them = t.topk(5, 2, largest), t.sort(2, largest, stable=True)
            assert flambeau.equal(few.indices, all_of_them.indices[..., :5])
            assert flambeau.equal(few.values.nan_to_num(1e4), all_of_them.values[..., :5].nan_to_num(1e4))


def test_order_statistics():
    x = flambeau.tensor([[4, 1, 3, 2], [5, 5, 7, 7]])
    assert x.median(1).values.tolist() == [2, 5] and x.kthvalue(3, 1).values.tolist() == [3, 7]
    assert x.mode(1).values.tolist() == [1, 5] and flambeau.msort(x).tolist() == [[4, 1, 3, 2], [5, 5, 7, 7]]
    y = flambeau.tensor([2.0, 1.0, 2.0], requires_grad=True)
    y.median().backward()
    assert y.grad.tolist() == [0.5, 0, 0.5] and flambeau.zeros(0).median().isnan()
    with pytest.raises(RuntimeError, match="k must be from"):
        x.topk(5)
    with pytest.raises(RuntimeError, match="k must be from"):
        x.kthvalue(0)


def test_unique():
    a = RNG.integers(0, 5, (6, 3))
    x = flambeau.from_numpy(a)
    for dim in (None, 0, 1):
        found = flambeau.unique(x, return_inverse=True, return_counts=True, dim=dim)
        expected = np.unique(a, return_inverse=True, return_counts=True, axis=dim)
        for f, e in zip(found, expected, strict=True):
            assert (f.numpy().reshape(-1) == e.reshape(-1)).all()
    assert flambeau.unique(flambeau.zeros(0)).shape == (0,)
    values, counts = flambeau.tensor([1, 1, 2, 2, 1]).unique_consecutive(return_counts=True)
    assert values.tolist() == [1, 2, 1] and counts.tolist() == [2, 2, 1]


def _check_unique(a):
    """All four forms against NumPy's."""
    x = flambeau.from_numpy(a)
    values, where, counts = np.unique(a, return_inverse=True, return_counts=True)
    for inverse, counting in ((False, False), (True, False), (False, True), (True, True)):
        found = flambeau.unique(x, return_inverse=inverse, return_counts=counting)
        expected = [values] + [where] * inverse + [counts] * counting
        found = found if inverse or counting else (found,)
        assert found[0].dtype == x.dtype and len(found) == len(expected)
        for f, e in zip(found, expected, strict=True):
            assert (f.numpy().reshape(-1) == e.reshape(-1)).all()
        assert not inverse or found[1].shape == x.shape


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
                                   "float16", "float32", "float64"])
def test_unique_of_every_dtype(dtype):
    for n in (1, 40, 6000):
        small = RNG.integers(0, 100, n) - (50 if dtype[0] in "if" else 0)
        _check_unique(small.astype(dtype))
        _check_unique(RNG.integers(0, 256, (n, np.dtype(dtype).itemsize), np.uint8).view(dtype).reshape(n)
                      if dtype[0] in "ui" else (RNG.standard_normal(n) * 100).astype(dtype))
        if dtype[0] in "ui" and dtype != "uint8":  # a large range of few numbers, with both ends of the type
            ends = np.iinfo(dtype)
            few = np.array([ends.min, ends.max, 0, 1, 77], dtype)
            _check_unique(few[RNG.integers(0, 5, n)])


def test_unique_of_many_in_order_and_strided():
    _check_unique(np.arange(-5000, 5000) * 3_000_000_000)
    _check_unique((np.arange(5000) * 700_000).astype(np.int32))
    _check_unique(RNG.integers(0, 50, (60, 70)).T)
    _check_unique(np.zeros((0, 3)))


@pytest.mark.parametrize("dtype", [flambeau.float16, flambeau.bfloat16, flambeau.float32, flambeau.float64])
@pytest.mark.parametrize("n", [4, 5000])
def test_unique_keeps_every_nan(dtype, n):
    for scale in (1, 1e-3):
        numbers = flambeau.arange(n, dtype=flambeau.float64).remainder(7) * scale
        x = flambeau.cat([flambeau.tensor([NAN, -0.0, 0.0, float("inf")], dtype=flambeau.float64), numbers,
                          flambeau.tensor([-NAN, -2.0], dtype=flambeau.float64)]).to(dtype)
        values, inverse, counts = x.unique(return_inverse=True, return_counts=True)
        assert values.isnan().tolist() == [False] * (values.numel() - 2) + [True, True]
        assert values.signbit().tolist()[:2] == [True, True] and values.tolist()[:2] == [-2, 0]
        assert flambeau.equal(values[inverse].nan_to_num(5), x.nan_to_num(5)) and counts.tolist()[-2:] == [1, 1]
        assert flambeau.equal(counts, inverse.bincount())
    assert flambeau.full((n,), NAN, dtype=dtype).unique(return_inverse=True)[1].tolist() == list(range(n))


def test_searching():
    edges, values = np.array([1.0, 2.0, 2.0, 5.0]), RNG.standard_normal((3, 4)) * 3
    for right in (False, True):
        side = "right" if right else "left"
        expected = np.searchsorted(edges, values, side)
        found = flambeau.searchsorted(flambeau.from_numpy(edges), flambeau.from_numpy(values), side=side)
        assert (found.numpy() == expected).all()
        found = flambeau.bucketize(flambeau.from_numpy(values), flambeau.from_numpy(edges), right=right, out_int32=True)
        assert (found.numpy() == expected).all() and found.dtype == flambeau.int32
    assert flambeau.searchsorted(flambeau.tensor([1, 2, 2, 5]), 2).item() == 1
    rows = flambeau.tensor([[1, 3], [2, 4]])
    assert flambeau.searchsorted(rows, flambeau.tensor([[2], [2]])).tolist() == [[1], [0]]
    with pytest.raises(RuntimeError, match="boundaries"):
        flambeau.searchsorted(rows, flambeau.tensor([1, 2, 3]))


@pytest.mark.parametrize("dtype", [flambeau.uint8, flambeau.int16, flambeau.int32, flambeau.int64])
def test_few_integers_are_sorted_stably(dtype):
    for low, high in ((0, 1), (-3 if dtype is not flambeau.uint8 else 3, 5), (100, 127)):
        x = flambeau.from_numpy(RNG.integers(low, high, (3, 2000))).to(dtype)
        for view, dim in ((x, 1), (x.t(), 0), (x.reshape(-1), 0), (x.reshape(3, 1000, 2), 1)):
            for descending in (False, True):
                values, places = view.sort(dim, descending=descending, stable=True)
                keys = view.numpy().astype(np.int64) * (-1 if descending else 1)
                assert np.array_equal(places.numpy(), np.argsort(keys, dim, kind="stable"))
                assert flambeau.equal(values, view.gather(dim, places)) and values.dtype is dtype


@pytest.mark.parametrize("n", [0, 1, 5, 65535, 65536, 200_000])
def test_runs_are_found_across_the_parts_that_threads_take(n):
    x = RNG.integers(0, 2, n)
    expected = x[np.concatenate([[True], x[1:] != x[:-1]])] if n else x
    assert np.array_equal(flambeau.from_numpy(x).unique_consecutive().numpy(), expected)
    zeros = flambeau.tensor([-0.0, 0.0, -0.0, 1.0, NAN, NAN]).unique_consecutive()
    assert zeros.tolist()[:2] == [0, 1] and zeros.signbit().tolist()[:1] == [True] and zeros.numel() == 4


@pytest.mark.parametrize("high", [1, 60, 5000, 100_000])
def test_many_integers_are_counted(high):
    x = RNG.integers(0, high, 150_000)
    assert np.array_equal(flambeau.from_numpy(x).bincount().numpy(), np.bincount(x))
    w = RNG.standard_normal(x.shape)
    assert np.array_equal(flambeau.from_numpy(x).bincount(flambeau.from_numpy(w)).numpy(), np.bincount(x, w))
    half = flambeau.ones(3, dtype=flambeau.float16)
    assert flambeau.tensor([1, 1, 0]).bincount(half).dtype is flambeau.float16


def test_counting():
    x = flambeau.tensor([1, 3, 1])
    assert x.bincount(minlength=5).tolist() == [0, 2, 0, 1, 0]
    assert x.bincount(flambeau.tensor([0.5, 1.0, 2.0])).tolist() == [0, 2.5, 0, 1]
    with pytest.raises(RuntimeError, match="non-negative"):
        flambeau.tensor([-1]).bincount()
    a = RNG.standard_normal(200)
    assert flambeau.from_numpy(a).histc(7, -1, 2).tolist() == np.histogram(a, 7, (-1, 2))[0].tolist()


def test_gradients_go_where_values_came_from():
    x = flambeau.tensor([3.0, 1.0, 2.0], requires_grad=True)
    (x.sort().values * flambeau.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [100, 1, 10]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("edges", [0, 1, 2, 17, 64, 65, 1000])
def test_searching_many_elements(edges, dtype):
    """Few boundaries are counted, more are searched for by halves, 8 elements together."""
    rows = np.sort(RNG.integers(0, 300, (3, edges)).astype(dtype), axis=1)
    x = RNG.integers(-5, 310, (3, 333)).astype(dtype)
    if dtype is not np.int64:
        x[0, :3] = np.nan, np.inf, -np.inf
    for side in ("left", "right"):
        found = flambeau.searchsorted(flambeau.from_numpy(rows), flambeau.from_numpy(x), side=side)
        expected = [np.searchsorted(r, v, side) for r, v in zip(rows, x, strict=True)]
        np.testing.assert_array_equal(found.numpy(), expected)
        boundaries = flambeau.from_numpy(rows[0].copy())
        one = flambeau.searchsorted(boundaries, flambeau.from_numpy(x), side=side, out_int32=True)
        np.testing.assert_array_equal(one.numpy(), np.searchsorted(rows[0], x, side))


def test_a_number_has_one_greatest_element_however_many_are_asked_for():
    for k in (0, 1):
        values, indices = flambeau.tensor(1.5).topk(k)
        assert values.item() == 1.5 and indices.item() == 0
    with pytest.raises(IndexError, match="size 0"):
        flambeau.zeros(2, 0).kthvalue(1, 1)


def test_stable_may_be_left_open():
    x = flambeau.tensor([2, 1, 2])
    assert flambeau.sort(x, stable=None)[1].tolist() == x.sort(stable=None)[1].tolist() == [1, 0, 2]
