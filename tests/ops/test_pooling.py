"""Pooling against its definition: windows cut from the padded input."""

import itertools

import numpy as np
import pytest

import flambeau
from flambeau.ops import pooling

F = flambeau.nn.functional
rng = np.random.default_rng(0)


def array(t):
    return np.array(t.detach().tolist()).reshape(tuple(t.shape))


def pooled(x, kernel, stride, padding, dilation, reduce):
    """Windows of one axis at a time would lose corners: all axes at once, outputs that fit without ceil_mode."""
    nd = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0)] + [(padding, padding)] * nd, constant_values=np.nan)
    out = [(n - dilation * (kernel - 1) - 1) // stride + 1 for n in x.shape[2:]]
    y = np.empty((*x.shape[:2], *out))
    for place in itertools.product(*(range(n) for n in out)):
        window = tuple(slice(p * stride, p * stride + dilation * (kernel - 1) + 1, dilation) for p in place)
        y[(slice(None), slice(None), *place)] = reduce(x[(slice(None), slice(None), *window)].reshape(*x.shape[:2], -1))
    return y


FORMS = [(2, 2, 0, 1), (3, 2, 1, 1), (3, 1, 1, 1), (2, 1, 0, 2), (3, 3, 0, 1)]


@pytest.mark.parametrize("nd", [1, 2, 3])
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("size", [7, 40])
def test_max(nd, form, size):
    kernel, stride, padding, dilation = form
    x = rng.standard_normal((2, 3, *((size, 9, 8)[:nd][::-1])))
    pool = getattr(F, f"max_pool{nd}d")
    y, places = pool(flambeau.from_numpy(x), kernel, stride, padding, dilation, return_indices=True)
    assert (array(y) == pooled(x, kernel, stride, padding, dilation, lambda w: np.nanmax(w, -1))).all()
    flat = x.reshape(2, 3, -1)
    places = array(places).reshape(2, 3, -1).astype(int)
    assert (np.take_along_axis(flat, places, -1) == array(y).reshape(2, 3, -1)).all()


@pytest.mark.parametrize("nd", [1, 2, 3])
@pytest.mark.parametrize("form", [f for f in FORMS if f[3] == 1], ids=str)
def test_mean(nd, form):
    kernel, stride, padding, _ = form
    x = rng.standard_normal((2, 3, *((7, 9, 8)[:nd])))
    pool = getattr(F, f"avg_pool{nd}d")
    inside = array(pool(flambeau.from_numpy(x), kernel, stride, padding, count_include_pad=False))
    np.testing.assert_allclose(inside, pooled(x, kernel, stride, padding, 1, lambda w: np.nanmean(w, -1)), atol=1e-12)
    whole = array(pool(flambeau.from_numpy(x), kernel, stride, padding))
    sums = pooled(x, kernel, stride, padding, 1, lambda w: np.nansum(w, -1))
    np.testing.assert_allclose(whole, sums / kernel**nd, atol=1e-12)


def test_ceil_mode_keeps_the_last_window():
    x = flambeau.arange(5.0).reshape(1, 1, 5)
    assert F.max_pool1d(x, 2, ceil_mode=True).flatten().tolist() == [1, 3, 4]
    assert F.avg_pool1d(x, 2, ceil_mode=True).flatten().tolist() == [0.5, 2.5, 4]
    assert F.avg_pool2d(flambeau.ones(1, 1, 2, 2), 2, divisor_override=2).item() == 2


def test_nan_wins():
    x = flambeau.tensor([[1.0, float("nan"), 3.0, 2.0]])
    y, places = F.max_pool1d(x, 2, return_indices=True)
    assert places.tolist() == [[1, 2]] and y[0, 0].isnan().item() and y[0, 1].item() == 3


@pytest.mark.parametrize("size", [1, 3, 5, 8])
def test_adaptive(size):
    x = rng.standard_normal((2, 3, 7, 6))
    mean, top = np.empty((2, 3, size, 2)), np.empty((2, 3, size, 2))
    for i in range(size):
        for j in range(2):
            window = x[:, :, i * 7 // size:-(-(i + 1) * 7 // size), j * 3:(j + 1) * 3]
            mean[:, :, i, j], top[:, :, i, j] = window.mean((2, 3)), window.max((2, 3))
    t = flambeau.from_numpy(x)
    np.testing.assert_allclose(array(F.adaptive_avg_pool2d(t, (size, 2))), mean, atol=1e-12)
    assert (array(F.adaptive_max_pool2d(t, (size, 2))) == top).all()
    assert tuple(F.adaptive_avg_pool2d(t, (None, 2)).shape) == (2, 3, 7, 2)


def test_unpool_puts_maxima_back():
    x = flambeau.arange(16.0).reshape(1, 1, 4, 4)
    y, places = F.max_pool2d(x, 2, return_indices=True)
    assert F.max_unpool2d(y, places, 2).flatten().nonzero().flatten().tolist() == [5, 7, 13, 15]
    with pytest.raises(RuntimeError, match="place 115 lies outside"):
        F.max_unpool2d(y, places + 100, 2)


def test_lp():
    x = rng.random((1, 2, 6))
    np.testing.assert_allclose(array(F.lp_pool1d(flambeau.from_numpy(x), 3, 2)),
                               (x.reshape(1, 2, 3, 2) ** 3).sum(-1) ** (1 / 3), atol=1e-12)


def zeros(*shape):
    return flambeau.zeros(*shape)


ERRORS = [
    (lambda: F.max_pool2d(zeros(1, 1, 4, 4), 2, 2, 2), "more than half of the kernel"),
    (lambda: F.max_pool2d(zeros(1, 1, 4, 4), 9), "the kernel is larger than the input"),
    (lambda: F.max_pool2d(zeros(1, 0, 4, 4), 2), "only the batch may be empty"),
    (lambda: F.max_pool2d(zeros(4, 4), 2), "input must have 4 dimensions, or 3"),
    (lambda: F.max_pool2d(zeros(1, 1, 4, 4), 0), "greater than zero"),
    (lambda: F.avg_pool2d(zeros(1, 1, 4, 4), 2, divisor_override=0), "divisor_override must not be 0"),
    (lambda: F.adaptive_avg_pool2d(zeros(1, 1, 4, 4), (1, 2, 3)), "output size"),
    (lambda: F.adaptive_avg_pool2d(zeros(1, 1, 4, 4), -1), "zero or more"),
]


@pytest.mark.parametrize("call, text", ERRORS, ids=[t for _, t in ERRORS])
def test_errors(call, text):
    with pytest.raises(RuntimeError, match=text):
        call()


def test_sizes_of_a_gradient_are_checked():
    backward = pooling.avg_pool_backward
    with pytest.raises(RuntimeError, match="sizes must not be negative"):
        backward(flambeau.ones(3, 2), [-2**63, -7, -1, -7], [2, 2], [], [0], False, False, None)


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64, flambeau.float16, flambeau.int64])
def test_maxima_without_places_are_those_with_places(dtype):
    x = flambeau.randn(2, 3, 9, 21).mul(8).to(dtype)
    if dtype.is_floating_point:
        x[0, 0, 2, 3] = float("nan")
    for given in (x, x.to(memory_format=flambeau.channels_last)):
        for options in ({"kernel_size": 2}, {"kernel_size": 2, "dilation": 2},
                        {"kernel_size": 3, "stride": 2, "padding": 1},
                        {"kernel_size": (1, 5), "stride": (1, 3), "ceil_mode": True}):
            alone = F.max_pool2d(given, **options)
            values, _ = F.max_pool2d(given, **options, return_indices=True)
            assert alone.stride() == values.stride() and alone.dtype is dtype
            assert flambeau.equal(alone.double().nan_to_num(99), values.double().nan_to_num(99))


def test_forward_mode_through_maxima_without_places():
    x, t = flambeau.randn(1, 2, 6), flambeau.randn(1, 2, 6)
    value, tangent = flambeau.func.jvp(lambda v: F.max_pool1d(v, 2), (x,), (t,))
    places = F.max_pool1d(x, 2, return_indices=True)[1]
    assert flambeau.equal(value, x.gather(2, places)) and flambeau.equal(tangent, t.gather(2, places))


def test_the_gradient_of_a_whole_planes_mean():
    x = flambeau.randn(3, 5, 4, 6, dtype=flambeau.float64, requires_grad=True)
    g, = flambeau.autograd.grad(flambeau.nn.functional.adaptive_avg_pool2d(x, 1).mul(2).sum(), x)
    assert flambeau.equal(g, flambeau.full_like(x, 2 / 24))
    for layout in (flambeau.contiguous_format, flambeau.channels_last):
        y = x.detach().contiguous(memory_format=layout).requires_grad_()
        (y * flambeau.nn.functional.adaptive_avg_pool2d(y, 1)).sum().backward()
        assert flambeau.allclose(y.grad, 2 * y.mean((2, 3), keepdim=True).expand_as(y).detach(), rtol=1e-12)


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.bfloat16, flambeau.float64], ids=str)
@pytest.mark.parametrize("shape", [(1, 1, 301, 300), (3, 5, 20, 21), (1, 70, 9, 9), (2, 1030, 4, 5)], ids=str)
def test_the_gradient_is_added_at_the_places_of_maxima(shape, dtype):
    """Planes, a plane that threads share, and images whose channels lie last, some or more than a thousand of them."""
    x = flambeau.randn(shape)
    values, places = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    g = flambeau.randn(values.shape).to(dtype)
    count = x[0, 0].numel()
    expected = flambeau.zeros(*shape[:2], count, dtype=flambeau.float64).scatter_add(
        2, places.flatten(2), g.double().flatten(2))
    found = []
    for form in (flambeau.contiguous_format, flambeau.channels_last):
        of, at = g.contiguous(memory_format=form), places.contiguous(memory_format=form)
        found.append(pooling.max_pool_backward(of, at, shape[2:]))
        threads = flambeau.get_num_threads()
        try:
            flambeau.set_num_threads(1)
            assert flambeau.equal(pooling.max_pool_backward(of, at, shape[2:]), found[-1])
        finally:
            flambeau.set_num_threads(threads)
        near = 1e-1 if dtype == flambeau.bfloat16 else 1e-5
        assert flambeau.allclose(found[-1].double().flatten(2), expected, rtol=near, atol=near)
        for wrong in (-1, count):
            bad = at.clone()
            bad[-1, -1, -1, -1] = wrong
            with pytest.raises(IndexError, match="lies outside a plane"):
                pooling.max_pool_backward(of, bad, shape[2:])
    assert flambeau.equal(*found)


def test_unpooling_takes_the_sizes_that_pooling_could_have_had():
    x, places = flambeau.ones(1, 1, 2, 2), flambeau.tensor([[[[0, 3], [12, 15]]]])
    unpool = flambeau.nn.functional.max_unpool2d
    for size in ((4, 4), (5, 4), (1, 1, 5, 5)):
        assert unpool(x, places, 2, output_size=size).shape == (1, 1, *size[-2:])
    for size in ((6, 4), (2, 4), (4,), (4, 4, 4)):
        with pytest.raises(ValueError, match="max_unpool"):
            unpool(x, places, 2, output_size=size)


def test_adaptive_pools_of_no_channels():
    x = flambeau.ones(2, 0, 4, 4, requires_grad=True)
    result = F.adaptive_avg_pool2d(x, 2)
    result.sum().backward()
    assert result.shape == (2, 0, 2, 2) and x.grad.shape == x.shape
    assert F.adaptive_avg_pool1d(flambeau.ones(1, 0, 4), 2).shape == (1, 0, 2)
    with pytest.raises(RuntimeError, match="only the batch and the channels may be empty"):
        F.adaptive_avg_pool2d(flambeau.ones(1, 2, 0, 4), 2)
