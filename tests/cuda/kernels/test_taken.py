"""Whole rows that an index takes, writes or adds to: every width of an access, rows that begin anywhere."""

import math
import re

import pytest

import flambeau
from flambeau.cuda.kernels import launches, nvrtc

from .harness import same
from .rows import Lowered
from .test_hostile import order as order

DTYPES = (flambeau.float32, flambeau.bfloat16, flambeau.uint8, flambeau.complex64,
          pytest.param(flambeau.float64, marks=pytest.mark.exhaustive))
WIDTHS = (1, 7, 24, 33, 100, 4100)


def numbers(shape, dtype, offset=0):
    """A contiguous tensor whose storage begins `offset` elements earlier."""
    n = offset + math.prod(shape)
    x = flambeau.randint(-8 if dtype.is_signed else 0, 9, (n,))  # whole: sums are exact in any order
    return x.to(dtype)[offset:].reshape(shape)


def calls(dtype, width, offset):
    x, one = numbers((6, width), dtype, offset), numbers((width,), dtype, offset)
    i = flambeau.tensor([[5, 0, -1], [3, 3, -6]])
    places = flambeau.tensor([4, 0, 0, 5, 4])
    values = numbers((2, 3, width), dtype, offset)
    rows = numbers((5, width), dtype, offset)
    cube = numbers((2, 3, 2, width), dtype, offset)
    yield "index", (x, [i])
    yield "index", (cube, [None, flambeau.tensor([2, 0, 2, 1])])
    yield "index", (cube, [flambeau.tensor([1, 0, 1]), flambeau.tensor([[2], [-3]])])
    yield "index", (cube[:, :, 1:], [flambeau.tensor(1), None])
    yield "index_select", (x, 0, places)
    yield "index_select", (cube, 1, places[1:3])
    yield "embedding_rows", (x, places.reshape(5, 1).expand(5, 3))
    yield "embedding_rows", (numbers((width, 6), dtype).t(), places.to(flambeau.int32))
    for accumulate in (False, True):
        yield "index_put", (x, [i], values, accumulate)
        yield "index_put", (x, [i], one, accumulate)
        yield "index_put", (x, [i], values[:, :, :1], accumulate)
        yield "index_put", (cube, [None, flambeau.tensor([2, 0, 2])], cube, accumulate)
    yield "index_add", (x, 0, places, rows)
    yield "index_add", (x, 0, places, rows), {"alpha": 2}
    yield "index_copy", (x, 0, places, rows)
    if dtype.is_floating_point:
        for by_frequency in (False, True):
            yield "embedding_dense_backward", (rows, places, 6, 5, by_frequency)


@pytest.mark.parametrize("offset", (0, 1))
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows(dtype, offset):
    for width in WIDTHS[:-1] if offset else WIDTHS:
        for name, *given in calls(dtype, width, offset):
            lowered = Lowered(name, *given)
            for out, wanted in zip(lowered.run(), lowered.expected, strict=True):
                assert same(out, wanted), (name, width)


@pytest.mark.parametrize("at_end", (True, False))
def test_rows_keep_to_their_memory(order, at_end):
    order("reversed")
    for dtype in (flambeau.float32, flambeau.bfloat16):
        for width in (5, 1032):
            for name, *given in calls(dtype, width, 0):
                lowered = Lowered(name, *given, aligned=width % 16 == 0)
                assert all(same(a, b) for a, b in zip(lowered.run_fenced(at_end), lowered.expected, strict=True)), name


def test_rows_outside_are_zeros_or_stay():
    x, far = numbers((6, 32), flambeau.float32), flambeau.tensor([1, 6, -7, 10**12])
    wanted = flambeau.zeros(4, 32)
    wanted[0] = x[1]
    assert Lowered("index", (x, [far]), results=[wanted]).run()[0].equal(wanted)
    wanted = x.clone()
    wanted[1] += 1
    ones = flambeau.ones(4, 32)
    assert Lowered("index_put", (x, [far], ones, True), results=[wanted]).run()[0].equal(wanted)
    wanted[1] = 1
    assert Lowered("index_put", (x, [far], ones, False), results=[wanted]).run()[0].equal(wanted)
    wanted = flambeau.zeros(6, 32)
    wanted[1] = 1
    found = Lowered("embedding_dense_backward", (ones, far, 6, -1, False), results=[wanted]).run()[0]
    assert found.equal(wanted)


def test_no_rows():
    x, none = numbers((6, 32), flambeau.float32), flambeau.zeros(0, dtype=flambeau.int64)
    for name, args in (("index", (x, [none])), ("index_select", (x, 0, none)), ("embedding_rows", (x, none)),
                       ("index_put", (x, [none], x[:0], False)), ("index_add", (x, 0, none, x[:0])),
                       ("embedding_dense_backward", (x[:0], none, 6, -1, False))):
        lowered = Lowered(name, args)
        assert all(same(a, b) for a, b in zip(lowered.run(), lowered.expected, strict=True)), name


def texts_of(monkeypatch, calls):
    """{text: operator} of the kernels of these calls."""
    texts = {}
    monkeypatch.setattr(launches, "compile", lambda source, arch, name: texts.setdefault(source, name).encode())
    for name, *given in calls:
        Lowered(name, *given)
    return texts


def wide_accesses(ptx):
    """How many loads and stores of 16 bytes."""
    found = re.findall(r"(ld|st)\.global\.v(\d)\.[a-z](\d+)", ptx)
    return [sum(1 for k, many, bits in found if k == kind and int(many) * int(bits) == 128) for kind in ("ld", "st")]


@pytest.mark.skipif(not nvrtc.found(), reason="NVRTC is not installed")
@pytest.mark.parametrize("dtype", (flambeau.float32, flambeau.bfloat16, flambeau.uint8), ids=str)
def test_rows_by_nvrtc(monkeypatch, dtype):
    texts = texts_of(monkeypatch, [*calls(dtype, 1024, 0), *calls(dtype, 33, 1)])
    wide = 0
    for text, name in texts.items():
        for arch in ("sm_80", "sm_90"):
            ptx = nvrtc.build(text, arch, name, ptx=True).decode()
            assert ".local" not in ptx, name
            assert nvrtc.build(text, arch, name).startswith(b"\x7fELF")
        wide += min(wide_accesses(ptx)) >= 4
    assert wide >= 3
