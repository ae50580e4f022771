"""Group norm of large images and of those with channels last: numbers against float64, every cut, borders."""

import pytest

import flambeau
from flambeau.cuda._calls import RowCall, TensorInfo
from flambeau.cuda.kernels import group_norm, nvrtc
from flambeau.cuda.kernels.launches import row_major
from flambeau.cuda.kernels.layouts import last_strides
from flambeau.ops.kinds import OPS

from .rows import Lowered
from .test_hostile import order as order
from .test_pools import image
from .test_taken import texts_of, wide_accesses

LIMITS = {flambeau.float64: 1e-11, flambeau.float32: 2e-5, flambeau.float16: 4e-3, flambeau.bfloat16: 3e-2}
#: shape, groups; in planes all of them are larger than what registers hold
LARGE = (((1, 4, 136, 130), 1), ((1, 6, 131, 77), 2), ((2, 64, 31, 33), 2), ((1, 2, 300, 301), 2),
         ((3, 260, 16, 16), 1), ((1, 3, 9, 50, 101), 1), ((2, 3, 40001), 1))
#: with channels last
SMALL = (((2, 8, 5, 7), 4), ((3, 20, 1, 3), 5), ((1, 64, 30, 40), 8), ((2, 300, 4, 4), 3), ((1, 5, 60, 50), 1),
         ((2, 16, 3, 4, 5), 2), ((2, 3, 2, 2), 3))


def centred(x, mean):
    return (x.double() * 0.3 + mean).to(x.dtype)


def wanted(x, groups, weight, bias, grad, eps):
    """(out, gradients of x, weight and bias) in float64, by the CPU."""
    given = [None if t is None else t.double().contiguous() for t in (x, weight, bias, grad)]
    out = OPS["group_norm"](given[0], groups, given[1], given[2], eps)
    return [out, *OPS["_group_norm_backward"](given[3], given[0], groups, given[1], eps)]


def distance(a, b):
    """The largest difference, for numbers of about 1; sums are divided by their terms' number."""
    return float((a.double() - b).abs().max()) if a.numel() else 0.0


def check(x, groups, weight, bias, eps=1e-5, grad=None, scale=1.0, run=Lowered.run):
    grad = flambeau.randn(x.shape).to(x.dtype) if grad is None else grad
    right = wanted(x, groups, weight, bias, grad, eps)
    there = Lowered("group_norm", (x, groups, weight, bias, eps))
    back = Lowered("_group_norm_backward", (grad, x, groups, weight, eps))
    terms = max(x.numel() // x.shape[1], 1)
    out, dx, dw, db = (*run(there), *run(back))
    assert out.stride() == x.stride() and dx.stride() == x.stride()
    for name, a, b, by in (("out", out, right[0], 3), ("x", dx, right[1], 3 * max(1.0, float(right[1].abs().max()))),
                           ("weight", dw, right[2], terms**0.5 * 4), ("bias", db, right[3], terms**0.5 * 4)):
        limit = max(LIMITS[x.dtype], LIMITS[a.dtype]) * scale * by
        assert distance(a, b) <= limit, (name, x.shape, distance(a, b), limit)
    return there.plan, back.plan


@pytest.mark.parametrize("dtype", LIMITS, ids=str)
def test_images_in_planes(dtype):
    """Parts that divide a plane or not, packs of any width, several parts, weights of another dtype or absent."""
    for k, (shape, groups) in enumerate(LARGE):
        x = centred(flambeau.randn(shape).to(dtype), 1.0)
        weight, bias = flambeau.rand(shape[1]) + 0.5, flambeau.randn(shape[1])
        if k % 3 == 1:
            weight = bias = None
        elif k % 3 == 2:
            weight, bias = weight.to(dtype), None
        there, back = check(x, groups, weight, bias)
        assert len(there.steps) == 3 and len(back.steps) == 4, shape


@pytest.mark.parametrize("dtype", LIMITS, ids=str)
def test_images_with_channels_last(dtype):
    for k, (shape, groups) in enumerate(SMALL):
        x = centred(flambeau.randn(shape).to(dtype), 1.0).movedim(1, -1).contiguous().movedim(-1, 1)
        weight = None if k % 3 == 0 else flambeau.rand(shape[1]) + 0.5
        bias = None if k % 3 == 1 else flambeau.randn(shape[1])
        grad = flambeau.randn(shape).to(dtype).movedim(1, -1).contiguous().movedim(-1, 1)
        there, back = check(x, groups, weight, bias, grad=grad)
        assert len(there.steps) == 3 and len(back.steps) == 4, shape
        check(x, groups, weight, bias)  # a gradient in another order


@pytest.mark.parametrize("last", (False, True))
def test_means_far_from_0(last):
    """As exact as float32 allows: differences are summed, not squares of elements."""
    for mean in (100.0, 3000.0):
        x = centred(flambeau.randn(2, 4, 128, 130), mean)
        if last:
            x = x.contiguous(memory_format=flambeau.channels_last)
        check(x, 2, flambeau.rand(4) + 0.5, flambeau.randn(4), scale=mean / 10)
    x[:, :, 0, 0] = -40000.0  # the first number of each plane is far from all others
    check(x, 2, None, None, eps=0.1, scale=100)
    same = flambeau.full((1, 4, 128, 130), 12345.678)
    if last:
        same = same.contiguous(memory_format=flambeau.channels_last)
    assert (Lowered("group_norm", (same, 2, None, None, 1e-5)).run()[0] == 0).all()


@pytest.mark.parametrize("last", (False, True))
def test_what_is_no_number_keeps_to_its_group(last):
    x = flambeau.randn(2, 4, 100, 101)
    x[1, 2, 50, 3] = flambeau.nan
    if last:
        x = x.contiguous(memory_format=flambeau.channels_last)
    out, = Lowered("group_norm", (x, 2, None, None, 1e-5)).run()
    odd = flambeau.isnan(out)
    assert odd[1, 2:].all() and int(odd.sum()) == odd[1, 2:].numel()


def test_groups_of_one_element_and_no_images():
    x = flambeau.randn(2, 4, 1, 1).contiguous(memory_format=flambeau.channels_last)
    assert (Lowered("group_norm", (x, 4, None, None, 1e-5)).run()[0] == 0).all()
    for shape in ((0, 4, 9, 9), (2, 4, 0, 9)):
        x = flambeau.zeros(shape)
        for form in (x, x.contiguous(memory_format=flambeau.channels_last)):
            lowered = Lowered("_group_norm_backward", (form, form, 2, None, 1e-5))
            assert [t.shape for t in lowered.run()] == [form.shape, (4,), (4,)]
            assert (lowered.results[1] == 0).all() and (lowered.results[2] == 0).all()


def test_gradients_of_another_dtype():
    x, g = flambeau.randn(1, 4, 128, 130), flambeau.randn(1, 4, 128, 130)
    for last in (False, True):
        form = flambeau.channels_last if last else flambeau.contiguous_format
        own, grad = x.contiguous(memory_format=form), g.bfloat16().contiguous(memory_format=form)
        expected = OPS["_group_norm_backward"](grad.float(), own, 2, None, 1e-5)
        lowered = Lowered("_group_norm_backward", (grad, own, 2, None, 1e-5), results=list(expected))
        for a, b in zip(lowered.run(), expected, strict=True):
            assert float((a - b).abs().max()) < 2e-2


@pytest.mark.parametrize("at_end", (True, False))
@pytest.mark.parametrize("last", (False, True))
def test_group_norm_keeps_to_its_memory(order, last, at_end):
    order("reversed")
    for shape, groups, dtype in (((1, 6, 131, 77), 2, flambeau.float32), ((1, 4, 128, 130), 2, flambeau.bfloat16)):
        for offset in (0, 1):
            x = image(shape, dtype, last, offset)
            check(x, groups, flambeau.rand(shape[1]) + 0.5, flambeau.randn(shape[1]),
                  run=lambda lowered: lowered.run_fenced(at_end))


@pytest.mark.parametrize(("shape", "last", "grid"), [
    ((64, 64, 112, 112), False, (4096, 1)), ((1, 8, 512, 512), False, (8, 32)), ((16, 256, 28, 28), False, (512, 1)),
    ((64, 64, 112, 112), True, (64, 32)), ((2, 512, 64, 64), True, (8, 64))], ids=str)
def test_how_parts_are_cut(shape, last, grid):
    """A plane is cut where there are few of them; the shape alone decides."""
    strides = last_strides(shape) if last else row_major(shape)
    x = TensorInfo(0, "float32", shape, tuple(strides), True)
    call = RowCall("group_norm", (x, 1, None, None, 1e-5, True), (x._replace(k=1),), "emulate", 0)
    images = group_norm._Images(call, x, 1, ("x", x, False), ("out", call.results[0], True))
    assert images.grid == grid and (images.chunks - 1) * images.width < images.inner <= images.chunks * images.width


@pytest.mark.skipif(not nvrtc.found(), reason="NVRTC is not installed")
@pytest.mark.parametrize("last", (False, True))
@pytest.mark.parametrize("dtype", (flambeau.float32, flambeau.bfloat16, flambeau.float64), ids=str)
def test_group_norm_by_nvrtc(monkeypatch, dtype, last):
    """No local memory; elements are read and written 16 bytes at once."""
    x = image((1, 16, 128, 130), dtype, last)
    texts = texts_of(monkeypatch, [("group_norm", (x, 1, None, None, 1e-5)),
                                   ("_group_norm_backward", (x, x, 1, None, 1e-5))])
    for text, name in texts.items():
        ptx = nvrtc.build(text, "sm_90", name, ptx=True).decode()
        assert ".local" not in ptx, name
        if "sum_planes_of<V" in text.rpartition("__global__")[2]:
            assert wide_accesses(ptx)[0] >= 2, name
        if "normalize_" in text.rpartition("__global__")[2]:
            assert min(wide_accesses(ptx)) >= 2, name
