"""Tensors joined by one launch: rows of any length, that begin anywhere; what does not lie in rows; other dtypes."""

import pytest

import flambeau
from flambeau.cuda.kernels import nvrtc

from .harness import same
from .rows import Lowered
from .test_hostile import order as order
from .test_taken import numbers, texts_of, wide_accesses

DTYPES = (flambeau.float32, flambeau.bfloat16, flambeau.float64, flambeau.uint8, flambeau.complex128)


def calls(dtype, offset=0):
    """Calls of cat and stack."""
    def of(*shape):
        return numbers(shape, dtype, offset)

    yield "cat", ([of(3, 5), of(3, 1), of(3, 16)], 1)
    yield "cat", ([of(6, 32), of(6, 64), of(6, 16)], 1)
    yield "cat", ([of(2, 5000), of(2, 4200)], 1)
    yield "cat", ([of(7, 9), of(1, 9), of(3, 9)], 0)
    yield "cat", ([of(20000), of(16), of(3)], 0)
    yield "cat", ([of(2, 3, 4, 8), of(2, 5, 4, 8)], 1)
    yield "cat", ([of(2, 3, 16)[:, :, 3:8], of(2, 3, 16)[:, 1:, :5]], 1)
    yield "cat", ([of(4, 6).t(), of(6, 3), of(3, 6).t()], 1)
    yield "cat", ([of(40, 50).t(), of(50, 40)], 0)
    yield "cat", ([of(0), of(3, 5), of(0, 5)], 0)
    yield "cat", ([of(1, 4).expand(6, 4), of(6, 4)], 1)
    yield "cat", ([of(3, 4), of(3, 4).to(flambeau.complex128 if dtype.is_complex else flambeau.float64)], 1)
    yield "cat", ([of(5, 2 + k % 3) for k in range(37)], 1)
    yield "stack", ([of(3, 5), of(3, 5)], 0)
    yield "stack", ([of(3, 8), of(8, 3).t(), of(3, 8)], 1)
    yield "stack", ([of(300, 3), of(300, 3)], 2)
    yield "stack", ([of(1)[0], of(1)[0], of(1)[0]], 0)


@pytest.mark.parametrize("offset", (0, 1))
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_joined(dtype, offset):
    for name, args in calls(dtype, offset):
        lowered = Lowered(name, args)
        assert all(same(a, b) for a, b in zip(lowered.run(), lowered.expected, strict=True)), (name, args)


@pytest.mark.parametrize("at_end", (True, False))
def test_joined_within_memory(order, at_end):
    order("reversed")
    for aligned in (True, False):
        for name, args in calls(flambeau.bfloat16):
            lowered = Lowered(name, args, aligned=aligned)
            assert all(same(a, b) for a, b in zip(lowered.run_fenced(at_end), lowered.expected, strict=True)), name


def test_one_launch_joins_sixteen():
    for many, launches in ((2, 1), (16, 1), (17, 2)):
        assert len(Lowered("cat", ([flambeau.ones(3, 8)] * many, 1)).plan.steps) == launches


@pytest.mark.skipif(not nvrtc.found(), reason="NVRTC is not installed")
def test_joined_by_nvrtc(monkeypatch):
    for text, name in texts_of(monkeypatch, calls(flambeau.bfloat16)).items():
        for arch in ("sm_80", "sm_90"):
            assert ".local" not in nvrtc.build(text, arch, name, ptx=True).decode(), name
    text, = texts_of(monkeypatch, [("cat", ([flambeau.ones(4, 64), flambeau.ones(4, 32)], 1))])
    loads, stores = wide_accesses(nvrtc.build(text, "sm_90", "cat", ptx=True).decode())
    assert loads == stores >= 4
