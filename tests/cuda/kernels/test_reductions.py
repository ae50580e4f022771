"""Sums, extrema and their kin by each way through memory: lanes of a warp, blocks, chunks, packs of columns."""

import math

import pytest

import flambeau
from flambeau.cuda.kernels import reductions
from flambeau.ops.kinds import OPS

from .rows import Lowered

#: (shape, the dimension that is summed over): the last of a few lanes, of a warp, of blocks in chunks, of a strided
#: view; the first of packs of columns, of packs in chunks, of single columns
WAYS = (((70, 24), 1), ((70, 19), 1), ((4100, 264), 1), ((3, 9001), 1), ((2, 20_000), 1),
        ((9, 64), 0), ((700, 64), 0), ((700, 67), 0))
OPERATIONS = {"sum": (None,), "argmax": (), "argmin": (), "amax": (), "var.correction": (1,), "logsumexp": (),
              "max.dim": (), "std_mean.correction": (0,)}


def near(a, b):
    if a.dtype == flambeau.int64:
        return bool((a == b).all())
    share = {flambeau.float32: 2e-5, flambeau.bfloat16: 1e-2, flambeau.float64: 1e-12}[a.dtype]
    a, b = a.double(), b.double()
    return bool((((a - b).abs() <= share * b.abs() + share / 10) | (a == b) | ((a != a) & (b != b))).all())


def check(name, x, dim, *more):
    given = (x, dim, *([False] if name == "sum" else []))
    wanted = OPS[name](*given, *(m for m in more if m is not None))
    wanted = [wanted] if isinstance(wanted, flambeau.Tensor) else list(wanted)
    found = Lowered(name, (*given, *(m for m in more if m is not None))).run()
    assert all(map(near, found, wanted)), (name, x.dtype, tuple(x.shape), dim)


def values(shape, dtype):
    """Numbers far from 0, of which some are equal."""
    x = (flambeau.randn(shape) + 3).to(dtype)
    x.flatten()[::7] = 3.25
    return x


@pytest.mark.parametrize("name, dtype", [
    ("sum", flambeau.float32), ("argmax", flambeau.bfloat16), ("argmin", flambeau.float32),
    ("var.correction", flambeau.float32), ("logsumexp", flambeau.bfloat16), ("max.dim", flambeau.float64),
    ("std_mean.correction", flambeau.bfloat16), ("amax", flambeau.bfloat16)], ids=str)
def test_every_way_gives_the_same(name, dtype):
    for shape, dim in WAYS:
        check(name, values(shape, dtype), dim, *OPERATIONS[name])


@pytest.mark.parametrize("name", ("argmax", "max.dim", "argmin"))
def test_the_first_of_equal_elements_and_the_first_nan(name):
    for shape, dim in WAYS[::2]:
        x = flambeau.randint(0, 3, shape).to(flambeau.bfloat16)
        check(name, x, dim)
        x.select(dim, shape[dim] - 1).fill_(math.nan)
        x.select(dim, shape[dim] // 2).fill_(math.nan)
        check(name, x, dim)
        check(name, flambeau.full(shape, -math.inf if name != "argmin" else math.inf, dtype=flambeau.bfloat16), dim)


def test_rows_that_do_not_lie_side_by_side():
    for x, dim in ((flambeau.rand(40, 9, 30)[:, ::2], 2), (flambeau.rand(30, 40, 64).transpose(0, 1), 2),
                   (flambeau.rand(40, 30, 65)[:, :, 1:], 2), (flambeau.rand(300, 9, 64)[:, ::2], 0),
                   (flambeau.rand(300, 65)[:, 1:], 0), (flambeau.rand(64).expand(50, 64), 0)):
        check("sum", x, dim)
        check("argmax", x, dim)


def test_many_short_rows_are_of_lanes_and_few_long_ones_of_blocks():
    def ways(*shape, dim=1):
        return [text for text in ("reduce_lines", "reduce_rows", "reduce_columns", "reduce_chunks")
                if any(text in step for step in made(flambeau.empty(shape), dim))]

    def made(x, dim):
        texts, launch = [], reductions.launch
        reductions.launch = lambda call, body, *rest: texts.append(body) or launch(call, body, *rest)
        try:
            Lowered("sum", (x, dim, False), results=[x.sum(dim)])
        finally:
            reductions.launch = launch
        return texts
    assert ways(5000, 4096) == ["reduce_lines"] == ways(10, 48)
    assert ways(100, 4096) == ["reduce_rows"] == ways(5000, 5000)
    assert ways(4, 100_000) == ["reduce_rows", "reduce_chunks"]
    assert ways(200, 5000, dim=0) == ["reduce_columns"]
    assert ways(5000, 100, dim=0) == ["reduce_columns", "reduce_chunks"]
