"""Pools of images in planes and with channels last: packs of every width, all windows, borders, few results."""

import pytest

import flambeau
from flambeau.cuda.kernels import nvrtc, pools
from flambeau.ops.kinds import OPS

from .harness import same
from .rows import Capture, Lowered
from .test_hostile import order as order
from .test_taken import texts_of, wide_accesses

FLOATS = (flambeau.float32, flambeau.bfloat16, flambeau.float64,
          pytest.param(flambeau.float16, marks=pytest.mark.exhaustive))
FORMAT = {4: flambeau.channels_last, 5: flambeau.channels_last_3d}


def image(shape, dtype, last, offset=0):
    """Small whole numbers, many of them equal; the first lies `offset` elements behind the storage's beginning."""
    n = offset
    x = flambeau.randint(-9, 9, tuple(shape)).to(dtype)
    if last:
        x = x.contiguous(memory_format=FORMAT[len(shape)])
    held = flambeau.zeros(x.numel() + n, dtype=dtype)
    return flambeau.as_strided(held, shape, x.stride(), n).copy_(x)


def pooled(x):
    """Calls of pools of an image [n, c, h, w]."""
    for kernel, stride, padding, dilation, ceil in (((3, 3), (2, 2), (1, 1), (1, 1), False),
                                                    ((2, 3), (2, 1), (0, 1), (1, 2), True),
                                                    ((5, 1), (3, 2), (2, 0), (2, 1), False)):
        yield "max_pool", (x, kernel, stride, padding, dilation, ceil, 2)
        yield "max_pool_values", (x, kernel, stride, padding, dilation, ceil, 2)
    yield "adaptive_max_pool", (x, (3, 2), 2)
    for kernel, stride, padding, ceil, counted, divisor in (
            ((2, 2), None, (0, 0), False, True, None), ((3, 3), (2, 2), (1, 1), False, False, None),
            ((3, 2), (2, 3), (1, 0), True, True, None), ((4, 3), (1, 2), (2, 1), True, True, 5),
            (x.shape[2:], None, (0, 0), False, True, None)):
        yield "avg_pool2d", (x, kernel, stride, padding, ceil, counted, divisor)
    for size in ((1, 1), (3, 2), (x.shape[2], 1), (x.shape[2] + 3, x.shape[3] + 1)):
        yield "adaptive_avg_pool", (x, size, 2)


def ways_back(x, last, offset):
    """Those of the calls whose gradient is a call."""
    for name, args in pooled(x):
        out = OPS[name](*args)
        values = out if isinstance(out, flambeau.Tensor) else out[0]
        grad = image(values.shape, values.dtype, last, offset)
        if name in ("max_pool", "adaptive_max_pool"):
            yield "max_pool_backward", (grad, out[1], x.shape[2:])
            yield "max_pool_backward", (grad, out[1], x.shape[2:], *(args[1:5] if name == "max_pool" else ((),)))
        elif name == "avg_pool2d":
            yield "avg_pool_backward", (grad, x.shape, args[1], args[2] or args[1], *args[3:])
        elif name == "adaptive_avg_pool":
            yield "adaptive_avg_pool_backward", (grad, x.shape, 2)


def check(name, args, run=Lowered.run):
    lowered = Lowered(name, args)
    for out, wanted in zip(run(lowered), lowered.expected, strict=True):
        assert same(out, wanted), (name, args[1:], args[0].shape, args[0].stride())


@pytest.mark.parametrize("last", (False, True))
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_there_and_back(dtype, last):
    for channels, offset in ((1, 0), (3, 0), (4, 1), (6, 0), (16, 0)):
        x = image((2, channels, 9, 8), dtype, last, offset)
        for name, args in (*pooled(x), *ways_back(x, last, offset)):
            check(name, args)


@pytest.mark.parametrize("last", (False, True))
def test_whole_numbers_and_other_dimensions(last):
    for dtype in (flambeau.int64, flambeau.int32, flambeau.uint8):
        x = image((2, 4, 6, 7), dtype if dtype.is_signed else flambeau.int16, last).abs().to(dtype)
        check("max_pool", (x, (3, 3), (2, 2), (1, 1), (1, 1), False, 2))
    check("avg_pool2d", (image((2, 4, 16, 7), flambeau.int64, last), (3, 3), None, (0, 0)))
    check("avg_pool2d", (image((2, 4, 16, 7), flambeau.int64, last), (16, 7), None, (0, 0)))
    x = image((2, 4, 5, 6, 7), flambeau.float32, last)
    for size in ((1, 1, 1), (2, 1, 3), (1, 6, 1)):
        check("adaptive_avg_pool", (x, size, 3))
        check("adaptive_avg_pool_backward", (OPS["adaptive_avg_pool"](x, size, 3), x.shape, 3))
    out, places = OPS["max_pool"](x, (2, 3, 2), (2, 1, 2), (1, 1, 0), (1, 1, 1), True, 3)
    check("max_pool", (x, (2, 3, 2), (2, 1, 2), (1, 1, 0), (1, 1, 1), True, 3))
    check("max_pool_backward", (out, places, x.shape[2:]))
    check("max_pool_backward", (out, places, x.shape[2:], (2, 3, 2), (2, 1, 2), (1, 1, 0), (1, 1, 1)))
    for size in ((2, 1, 3), (1, 6, 9)):
        out, places = OPS["adaptive_max_pool"](x, size, 3)
        check("max_pool_backward", (out, places, x.shape[2:], ()))
    check("avg_pool3d", (x, (2, 2, 2), None, (0, 0, 0)))
    row = flambeau.randn(3, 5, 40)
    check("avg_pool1d", (row, (4,), None, (0,)))
    check("avg_pool1d", (row.transpose(1, 2).contiguous().transpose(1, 2), (40,), None, (0,)))
    check("adaptive_avg_pool", (row, (1,), 1))
    check("adaptive_avg_pool", (row[0], (1,), 1))  # without a batch
    check("max_pool", (row[0], (3,), (2,), (1,), (1,), False, 1))


@pytest.mark.parametrize("last", (False, True))
@pytest.mark.parametrize("dtype", (flambeau.float32, flambeau.bfloat16, flambeau.float64), ids=str)
def test_large_windows(dtype, last):
    """By a warp, by a block, by several blocks, of whole planes and of parts."""
    for shape, sizes in (((2, 3, 90, 101), ((1, 1), (2, 2), (1, 7))), ((1, 8, 40, 40), ((1, 1), (2, 3))),
                         ((3, 64, 7, 7), ((1, 1),)), ((1, 1, 64, 128), ((1, 1), (1, 2)))):
        x = image(shape, dtype, last)
        for size in sizes:
            check("adaptive_avg_pool", (x, size, 2))
    check("avg_pool2d", (image((2, 8, 30, 30), dtype, last), (20, 20), (5, 5), (4, 4), True, False, None))
    check("avg_pool2d", (image((2, 8, 30, 30), dtype, last), (20, 20), (5, 5), (4, 4), True, True, 7))
    check("interpolate", (image((2, 8, 30, 30), dtype, last), (2, 1), None, "area"))


def test_not_numbers_and_infinities():
    x = flambeau.randn(1, 4, 6, 6)
    x[0, 0] = -flambeau.inf
    x[0, 1, 2, 3] = flambeau.nan
    for last in (False, True):
        y = x.contiguous(memory_format=flambeau.channels_last) if last else x
        check("max_pool", (y, (3, 3), (2, 2), (1, 1), (1, 1), False, 2))
        check("adaptive_avg_pool", (y, (1, 1), 2))


def test_no_images():
    for shape in ((0, 4, 6, 6), (2, 0, 6, 6)):
        x = flambeau.zeros(shape)
        two, none = (2, 2), (0, 0)
        for name, args in (("avg_pool2d", (x, two, None, none)), ("adaptive_avg_pool", (x, (1, 1), 2)),
                           ("max_pool", (x, two, two, none, (1, 1), False, 2))):
            try:
                lowered = Lowered(name, args)
            except RuntimeError:
                continue  # refused on the CPU too
            assert lowered.run()[0].shape == lowered.expected[0].shape


def test_places_outside_are_left_out():
    grad = flambeau.ones(1, 4, 2, 2)
    places = flambeau.tensor([0, -1, 9, 10**12]).expand(1, 4, 4).reshape(1, 4, 2, 2)
    wanted = flambeau.zeros(1, 4, 3, 3)
    wanted[:, :, 0, 0] = 1
    for form in (flambeau.contiguous_format, flambeau.channels_last):
        args = (grad.contiguous(memory_format=form), places.contiguous(memory_format=form), (3, 3))
        result = wanted.contiguous(memory_format=form)
        assert Lowered("max_pool_backward", args, results=[result]).run_fenced(True)[0].equal(wanted)


@pytest.mark.parametrize("last", (False, True))
def test_gradients_of_maxima_are_gathered(last):
    """One launch that writes each element once, unless very many windows hold it; the derivative names the windows."""
    F, form = flambeau.nn.functional, flambeau.channels_last if last else flambeau.contiguous_format
    x = image((2, 4, 15, 13), flambeau.float32, last)
    x[0, 1, 3, 4] = flambeau.nan
    for options in ((3, 2, 1), (2,), ((5, 3), (1, 2), (2, 0)), (3, 1, 1, 2), (5, 1, 2), (3, 2, 1, 1, True), (7, 1)):
        own = x.clone(memory_format=flambeau.preserve_format).requires_grad_()
        with Capture({"max_pool_backward"}) as capture:
            out = F.max_pool2d(own, *options)
            out.backward(flambeau.randint(-9, 9, out.shape).float().contiguous(memory_format=form))
        (name, args, kwargs, _, result), = capture.calls
        lowered = Lowered(name, args, kwargs, results=[result])
        assert same(lowered.run()[0], result), options
        assert (len(lowered.plan.steps) == 1) == (options != (7, 1)), options
    for size in ((3, 2), (20, 15)):
        own = x.clone(memory_format=flambeau.preserve_format).requires_grad_()
        with Capture({"max_pool_backward"}) as capture:
            F.adaptive_max_pool2d(own, size).sum().backward()
        (name, args, kwargs, _, result), = capture.calls
        assert same(Lowered(name, args, kwargs, results=[result]).run()[0], result), size


def test_places_out_of_their_windows_are_not_followed():
    for last in (False, True):
        form = flambeau.channels_last if last else flambeau.contiguous_format
        for far in (-1, 10**12, 2**32 + 1, -2**40):
            grad = flambeau.ones(1, 4, 5, 5).contiguous(memory_format=form)
            places = flambeau.full((1, 4, 5, 5), far).contiguous(memory_format=form)
            out = flambeau.zeros(1, 4, 9, 9).contiguous(memory_format=form)
            args = grad, places, (9, 9), (3, 3), (2, 2), (1, 1), (1, 1)
            assert (Lowered("max_pool_backward", args, results=[out]).run_fenced(True)[0] == 0).all()


@pytest.mark.parametrize("at_end", (True, False))
@pytest.mark.parametrize("last", (False, True))
def test_pools_keep_to_their_memory(order, last, at_end):
    order("reversed")
    for dtype in (flambeau.float32, flambeau.bfloat16):
        x = image((2, 8, 9, 12), dtype, last)
        for name, args in (*pooled(x), *ways_back(x, last, 0)):
            check(name, args, lambda lowered: lowered.run_fenced(at_end))
        check("adaptive_avg_pool", (image((2, 24, 60, 50), dtype, last), (1, 1), 2),
              lambda lowered: lowered.run_fenced(at_end))


def test_dividers():
    """Exact for all numbers that have 31 bits."""
    for n in (*range(1, 70), 1000, 65535, 65536, 2**30 - 1, 2**30):
        factor, shift = pools.divider(n)
        for k in (0, 1, n - 1, n, n + 1, 2 * n - 1, 3 * n, 2**31 - 1, (2**31 - 1) // n * n, (2**31 - 1) // n * n - 1):
            if 0 <= k < 2**31:
                assert (2 * k * factor >> 32) >> shift == k // n, (k, n)


@pytest.mark.skipif(not nvrtc.found(), reason="NVRTC is not installed")
@pytest.mark.parametrize("last", (False, True))
@pytest.mark.parametrize("dtype", (flambeau.float32, flambeau.bfloat16), ids=str)
def test_pools_by_nvrtc(monkeypatch, dtype, last):
    """No local memory, and channels that lie last are read 16 bytes at once."""
    x, cube = image((2, 16, 9, 8), dtype, last), image((2, 16, 4, 6, 8), dtype, last)
    large = [("adaptive_avg_pool", (image((2, 8, 40, 40), dtype, last), size, 2)) for size in ((1, 1), (2, 2))]
    large.append(("adaptive_avg_pool", (cube, (2, 2, 2), 3)))
    texts = texts_of(monkeypatch, [*pooled(x), *ways_back(x, last, 0), *large])
    for text, name in texts.items():
        ptx = nvrtc.build(text, "sm_90", name, ptx=True).decode()
        assert ".local" not in ptx, name
        if last and name in ("avg_pool2d", "max_pool_values"):
            assert wide_accesses(ptx)[0] >= 4, name
