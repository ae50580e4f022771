"""Sorting and selecting where a mechanism ends and another begins: warps, blocks, tiles; equal elements, NaN and -0."""

import math

import pytest

import flambeau
from flambeau.ops.kinds import OPS

from .. import emulate
from .rows import Lowered

NAN, INF = math.nan, math.inf
DTYPES = (flambeau.float32, flambeau.bfloat16, flambeau.int64, flambeau.bool, *(
    pytest.param(dtype, marks=pytest.mark.exhaustive) for dtype in (
        flambeau.float16, flambeau.float64, flambeau.int32, flambeau.int16, flambeau.int8, flambeau.uint8)))


def bits(x):
    """Elements so that -0 is not 0, and any NaN another."""
    if not x.is_floating_point():
        return x
    whole = {2: flambeau.int16, 4: flambeau.int32, 8: flambeau.int64}[x.itemsize]
    return flambeau.where(x.isnan(), flambeau.full_like(x, NAN), x).contiguous().view(whole)


def first_of_sorted(x, k, dim, largest, _):
    """What topk gives: of equal elements the first, in order. On the CPU their order is another where k is large."""
    return [part.narrow(dim, 0, k).contiguous() for part in x.reshape(x.shape or (1,)).sort(dim, largest, True)]


def check(name, x, *args, aligned=True, fenced=None):
    """Values and places, equal to the CPU's bit by bit."""
    wanted = first_of_sorted(x, *args) if name == "topk" else OPS[name](x, *args)
    wanted = [wanted] if isinstance(wanted, flambeau.Tensor) else list(wanted)
    lowered = Lowered(name, (x, *args), results=wanted, aligned=aligned)
    found = lowered.run() if fenced is None else lowered.run_fenced(fenced)
    assert all(bits(a).equal(bits(b)) for a, b in zip(found, wanted, strict=True)), (name, x.dtype, x.shape, args)


def elements(dtype, shape):
    """Many equal ones, both signs, the ends of the range; of floats infinities, NaN and -0 too."""
    if dtype == flambeau.bool:
        return flambeau.rand(shape) > 0.5
    if not dtype.is_floating_point:
        info = flambeau.iinfo(dtype)
        x = flambeau.randint(-9 if info.min else 0, 100, shape).to(dtype)
        for end in (info.min, info.max):
            x = flambeau.where(flambeau.rand(shape) < 0.05, flambeau.full_like(x, end), x)
        return x
    x = flambeau.randn(shape)
    x = flambeau.where(flambeau.rand(shape) < 0.3, (x * 2).round(), x)
    for odd in (NAN, INF, -INF):
        x = flambeau.where(flambeau.rand(shape) < 0.02, odd, x)
    return x.to(dtype)


def check_all(x, dim, **how):
    n = x.shape[dim]
    for descending in (False, True):
        check("sort", x, dim, descending, True, **how)
        for k in {1, min(3, n), min(1024, n), n}:
            check("topk", x, k, dim, descending, True, **how)
    for k in {1, (n + 1) // 2, n}:
        check("kthvalue", x, k, dim, False, **how)
    for name in ("median.dim", "nanmedian.dim", "mode"):
        check(name, x, dim, False, **how)


SHAPES = ((3, 1), (9, 32), (5, 33), (3, 128), (3, 129), (3, 513), (2, 2049), (2, 4096), (2, 4097))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_of_any_length(dtype):
    for shape in SHAPES[::3] if dtype in (flambeau.bfloat16, flambeau.int64, flambeau.bool) else SHAPES:
        check_all(elements(dtype, shape), 1)


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", (flambeau.bfloat16, flambeau.int64, flambeau.bool), ids=str)
def test_rows_of_all_other_lengths(dtype):
    for shape in SHAPES:
        check_all(elements(dtype, shape), 1)


@pytest.mark.parametrize("dtype", (flambeau.float32, pytest.param(flambeau.int64, marks=pytest.mark.exhaustive)),
                         ids=str)
def test_long_rows(dtype):
    x = elements(dtype, (1, 100_000))
    check("sort", x, 1, True, True)
    check("topk", x, 9, 1, True, True)
    check("median.dim", x, 1, False)
    check_all(elements(dtype, (2, 8193)), 1)
    check("median.all", elements(dtype, (300, 300)))
    check("nanmedian.all", elements(dtype, (30, 30)))


def test_digits_that_all_elements_share_are_left_out():
    """None, one, and every second digit moves the elements."""
    n = 5000
    for x in (flambeau.full((2, n), 7), flambeau.randint(0, 200, (2, n)), flambeau.randint(0, 3, (2, n)) * (1 + 2**20),
              flambeau.cat([flambeau.full((1, n), 3), flambeau.randint(-2**62, 2**62, (1, n))])):
        check("sort", x, 1, False, True)
        check("sort", x, 1, True, True)
        check("sort", x[:, :900], 1, False, True)


def test_rows_of_nothing_but_one_kind():
    for value in (NAN, -0.0, INF):
        x = flambeau.full((2, 700), value)
        check_all(x, 1)
        x[:, 300:] *= -1
        check_all(x, 1)


@pytest.mark.parametrize("rows", (40, pytest.param(600, marks=pytest.mark.exhaustive)))
def test_other_layouts_and_addresses(rows):
    x = elements(flambeau.float32, (70, 600))
    check_all(x.t()[:, :rows // 2], 0)
    check_all(x[:, :rows], 0)
    check_all(x.view(7, 10, 600)[..., :rows], 1)
    check_all(x[:rows // 2, 1:599:2], 1)
    check_all(x.view(-1)[1:8401].view(2, 4200), 1, aligned=False)
    check_all(flambeau.tensor([2.0]), 0)
    check("sort", flambeau.tensor(2.0), 0, False, True)
    assert [r.item() for r in Lowered("topk", (flambeau.tensor(2.0), 1)).run()] == [2, 0]
    for shape in ((0, 5), (5, 0)):
        assert all(r.numel() == 0 for r in Lowered("sort", (flambeau.ones(shape), 1)).run())
    assert all(r.numel() == 0 for r in Lowered("topk", (x, 0)).run())


def test_many_rows():
    """Long ones: one block finds an element of each, whatever their length."""
    check("topk", elements(flambeau.bfloat16, (64, 5000)), 7, 1, True, True)
    check("sort", elements(flambeau.int16, (200, 40)), 1, False, True)
    check("sort", elements(flambeau.float32, (2000, 3)), 0, True, True)
    check("sort", elements(flambeau.float32, (20, 4100)), 1, True, True)


@pytest.mark.parametrize("where", ("reversed", "3"))
def test_another_order(where, monkeypatch):
    """Threads and blocks; nothing outside of a tensor is touched, no memory is read that nobody wrote."""
    monkeypatch.setenv("FLAMBEAU_EMULATE_ORDER", where)
    emulate.module.cache_clear()
    for shape in ((5, 20), (3, 700), (2, 4500)):
        check_all(elements(flambeau.float32, shape), 1, fenced=where == "3")
    emulate.module.cache_clear()


def test_eighths_are_sorted_as_floats_are():
    x = elements(flambeau.float32, (2, 5000)).to(flambeau.float8_e5m2)
    for n in (20, 600, 5000):
        own = x[:, :n].contiguous()
        wanted = own.float().sort(1, stable=True)
        values, places = Lowered("sort", (own, 1, False, True), results=[own, wanted[1]]).run()
        assert places.equal(wanted[1]) and bits(values.float()).equal(bits(wanted[0]))


@pytest.mark.parametrize("n", (1, 33, 4096, 4097, 20_000))
def test_permutations(n):
    """Of 20,000 elements some share the digits that are sorted by, and are told apart by all bits."""
    for dtype in (flambeau.int64, flambeau.int32):
        (p,) = Lowered("randperm", (n,), results=[flambeau.empty(n, dtype=dtype)]).run()
        assert p.dtype == dtype and p.sort()[0].equal(flambeau.arange(n, dtype=dtype))
    if n > 1000:
        assert abs((p[1:] - p[:-1]).abs().double().mean().item() / n - 1 / 3) < 0.02
