"""Images resized in planes and with channels last: packs of every width, all modes, larger and smaller, and back."""

import pytest

import flambeau
from flambeau.cuda.kernels import nvrtc

from .harness import same
from .rows import Lowered
from .test_hostile import order as order
from .test_pools import image
from .test_taken import texts_of, wide_accesses

MODES = {3: ("nearest", "nearest-exact", "linear"), 4: ("nearest", "nearest-exact", "bilinear", "bicubic"),
         5: ("nearest", "nearest-exact", "trilinear")}
SIZES = {3: ((7,), (18,), (40,), (1,)), 4: ((6, 7), (12, 14), (24, 35), (3, 4), (1, 7), (13, 2), (12, 1)),
         5: ((3, 4, 5), (6, 8, 10), (2, 7, 3))}
SHAPES = {3: (2, 4, 9), 4: (2, 8, 6, 7), 5: (2, 4, 3, 4, 5)}


def calls(dtype, rank, last, channels=None, offset=0):
    shape = list(SHAPES[rank])
    shape[1] = channels or shape[1]
    x = image(shape, dtype, last, offset)
    for mode in MODES[rank]:
        for corners in (False, True) if "linear" in mode or mode == "bicubic" else (None,):
            for size in SIZES[rank]:
                yield "interpolate", (x, size, None, mode, corners)
                if dtype.is_floating_point:
                    grad = image((*shape[:2], *size), dtype, last, offset)
                    yield "resize_backward", (grad, shape[2:], None, mode, bool(corners), False)
            factors = (1.7, 2.3, 0.6)[:rank - 2]
            out = flambeau.nn.functional.interpolate(x, scale_factor=factors, mode=mode, align_corners=corners)
            yield "interpolate", (x, None, factors, mode, corners)
            if dtype.is_floating_point:
                yield "resize_backward", (out, shape[2:], factors, mode, bool(corners), False)


def check(name, args, run=Lowered.run):
    lowered = Lowered(name, args)
    for out, wanted in zip(run(lowered), lowered.expected, strict=True):
        near = out.dtype == flambeau.float32 and flambeau.allclose(out, wanted, rtol=1e-4, atol=1e-4)  # long sums
        assert near or same(out, wanted), (name, args[1:], args[0].shape, args[0].stride())


@pytest.mark.parametrize("last", (False, True))
@pytest.mark.parametrize("dtype", (flambeau.float32, flambeau.bfloat16, pytest.param(
    flambeau.float64, marks=pytest.mark.exhaustive)), ids=str)
def test_images(dtype, last):
    for channels, offset in ((None, 0), (3, 0), (4, 1)):
        for name, args in calls(dtype, 4, last, channels, offset):
            check(name, args)


def test_other_dimensions_and_dtypes():
    for name, args in (*calls(flambeau.float32, 3, False), *calls(flambeau.float32, 5, False),
                       *calls(flambeau.float16, 5, True)):
        check(name, args)
    for last in (False, True):
        for mode in ("nearest", "nearest-exact"):
            x = image((1, 4, 5, 6), flambeau.int16, last).abs().to(flambeau.uint8)
            check("interpolate", (x, (7, 12), None, mode))


@pytest.mark.parametrize("at_end", (True, False))
def test_images_keep_to_their_memory(order, at_end):
    order("reversed")
    for last in (False, True):
        for name, args in calls(flambeau.bfloat16, 4, last):
            check(name, args, lambda lowered: lowered.run_fenced(at_end))


def test_far_larger_and_smaller():
    for mode, corners in (("bilinear", False), ("bilinear", True), ("nearest", None), ("bicubic", False)):
        for size in ((100, 3), (1, 90)):
            x = image((1, 2, 7, 6), flambeau.float64, False)
            check("interpolate", (x, size, None, mode, corners))
            check("resize_backward", (image((1, 2, *size), flambeau.float64, False), (7, 6), None, mode, bool(corners),
                                      False))
            check("resize_backward", (image((1, 2, 5, 4), flambeau.float64, False), size, None, mode, bool(corners),
                                      False))


@pytest.mark.skipif(not nvrtc.found(), reason="NVRTC is not installed")
@pytest.mark.parametrize("dtype", (flambeau.float32, flambeau.bfloat16), ids=str)
def test_images_by_nvrtc(monkeypatch, dtype):
    """No local memory; channels that lie last are read and written 16 bytes at once."""
    texts = {}
    for last in (False, True):
        some = list(calls(dtype, 4, last)) + list(calls(dtype, 5, last))
        for text, name in texts_of(monkeypatch, some).items():
            texts[text] = name, last
    for text, (name, last) in texts.items():
        ptx = nvrtc.build(text, "sm_90", name, ptx=True).decode()
        assert ".local" not in ptx, name
        if last and f"constexpr int V = {16 // dtype.itemsize};" in text:
            assert min(wide_accesses(ptx)) >= 1, name
