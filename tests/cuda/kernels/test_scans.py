"""Running sums and their kin where rows are cut: lengths around the edges of lanes, warps, blocks and chunks."""

import math

import pytest

import flambeau
from flambeau.ops.kinds import OPS

from .. import emulate
from .harness import same
from .rows import Lowered

NAN, INF = math.nan, math.inf


def near(a, b):
    """Sums of float32 are rounded at each step, those of the CPU once."""
    if same(a, b):
        return True
    share = {flambeau.float32: 2e-5, flambeau.bfloat16: 1.6e-2}.get(a.dtype, 0)
    return bool((a.double() - b.double()).abs().max() <= share * b.double().abs().max())


def check(name, x, dim, **how):
    wanted = OPS[name](x, dim)
    wanted = [wanted] if isinstance(wanted, flambeau.Tensor) else list(wanted)
    found = Lowered(name, (x, dim), **how).run()
    assert all(map(near, found, wanted)), (name, x.dtype, x.shape, dim)


ROWS = ((7, 1), (3, 5), (5, 31), (70, 512), (3, 513), (3, 516), (2, 4096), (2, 4097), (3, 8200), (1, 100_000))
COLUMNS = ((5, 40), (33, 17), (2000, 16), (3, 300, 20))
FEW = ((70, 3, 4), (900, 2), (5000, 3))


@pytest.mark.parametrize("dtype", (flambeau.float32, flambeau.bfloat16, flambeau.int64, *(
    pytest.param(dtype, marks=pytest.mark.exhaustive) for dtype in (flambeau.float64, flambeau.bool))), ids=str)
def test_rows_of_any_length(dtype):
    for shape in (*ROWS, *COLUMNS, *FEW):
        dim = -1 if shape in ROWS else -2
        x = flambeau.randint(-3, 4, shape).to(dtype)
        check("cummax", x, dim)
        check("cummin", x, dim)
        if dtype.is_floating_point:
            check("logcumsumexp", x, dim)
        if dtype != flambeau.bfloat16:  # of which a sum of the CPU's is rounded at each step
            check("cumsum", x, dim)
            check("cumprod", x.sign(), dim)


def test_the_last_of_equal_elements_and_nan_stay():
    for shape, dim in (((1, 20_000), 1), ((3, 700), 1), ((2000, 20), 0)):
        x = flambeau.randint(0, 3, shape).float()
        x.select(dim, 900 if shape[dim] > 900 else 600).fill_(NAN)
        x.select(dim, shape[dim] - 2).fill_(NAN)
        for name in ("cummax", "cummin"):
            check(name, x, dim)
        x = x.nan_to_num(-INF)
        for name in ("cummax", "cummin", "logcumsumexp", "cumsum"):
            check(name, x, dim)


@pytest.mark.parametrize("name", ("cumsum", "cummax"))
def test_other_layouts_and_addresses(name):
    x = flambeau.randn(40, 600)
    check(name, x.t(), 0)
    check(name, x.t(), 1)
    check(name, x[:, 1:599:2], 1)
    check(name, x.view(-1)[1:].view(1, -1), 1, aligned=False)
    check(name, flambeau.tensor(3.0), 0)
    for dim in (0, 1):
        assert all(r.numel() == 0 for r in Lowered(name, (x[:0], dim)).run())


def test_many_long_rows_are_not_cut():
    """One block goes along each row."""
    x = flambeau.randint(-3, 4, (513, 4200)).to(flambeau.int16)
    check("cumsum", x, 1)


def test_whole_numbers_wrap_and_complex_ones_have_two_parts():
    check("cumsum", flambeau.full((1, 5000), 2**61), 1)
    for dtype in (flambeau.complex64, flambeau.complex128):
        check("cumsum", flambeau.complex(*flambeau.randint(-9, 9, (2, 3, 5000)).double()).to(dtype), 1)
        check("cumprod", flambeau.tensor([1, 1j, -1, -1j], dtype=dtype).repeat(2, 700), 1)


@pytest.mark.parametrize("dtype", (flambeau.bool, flambeau.float32, flambeau.bfloat16, flambeau.int64,
                                   flambeau.complex128), ids=str)
def test_places_of_what_is_not_zero(dtype):
    for shape in ((1,), (31,), (4095,), (4097,), (3, 5, 7), (100_000,), (33, 3001)):
        x = (flambeau.rand(shape) > 0.6).to(dtype)
        for aligned in (True, False):
            (found,) = Lowered("nonzero_rows", (x,), aligned=aligned).run()
            assert found.equal(x.nonzero()), (shape, aligned)
    ones = flambeau.ones(5000, dtype=dtype)
    for x in (ones, ones - ones if dtype != flambeau.bool else ~ones, ones.view(50, 100).t()):
        assert Lowered("nonzero_rows", (x,)).run()[0].equal(x.nonzero())
    if dtype.is_floating_point:
        x = flambeau.tensor([NAN, -0.0, 0, 1, INF], dtype=dtype)
        assert Lowered("nonzero_rows", (x,)).run()[0].tolist() == [[0], [3], [4]]


@pytest.mark.parametrize("where", ("reversed", "3"))
def test_cut_rows_in_another_order(where, monkeypatch):
    """Blocks depend on none of their launch; nothing outside of a tensor is touched."""
    monkeypatch.setenv("FLAMBEAU_EMULATE_ORDER", where)
    emulate.module.cache_clear()
    for shape, dim in (((2, 9001), 1), ((2, 8204), 1), ((40, 300), 1), ((700, 20), 0)):
        x = flambeau.randint(-3, 4, shape).double()
        for name in ("cumsum", "cummax"):
            wanted = OPS[name](x, dim)
            found = Lowered(name, (x, dim)).run_fenced(where == "3")
            assert all(map(same, found, [wanted] if name == "cumsum" else wanted))
        assert Lowered("nonzero_rows", (x,)).run_fenced(where == "3")[0].equal(x.nonzero())
    emulate.module.cache_clear()
