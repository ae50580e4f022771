"""Convolution against its definition, in every form; derivatives are in test_gradients."""

import itertools

import numpy as np
import pytest

import flambeau
from flambeau.fx.experimental.proxy_tensor import make_fx
from flambeau.utils._python_dispatch import TorchDispatchMode

F = flambeau.nn.functional
rng = np.random.default_rng(0)


def made(*shape, dtype=flambeau.float64):
    return flambeau.from_numpy(rng.standard_normal(shape)).to(dtype)


def array(t):
    return np.array(t.detach().tolist()).reshape(tuple(t.shape))


def convolved(x, w, bias, stride, padding, dilation, groups):
    """The definition, as sums over shifted slices of the padded input."""
    nd = x.ndim - 2
    stride, padding, dilation = ((v,) * nd if isinstance(v, int) else v for v in (stride, padding, dilation))
    x = np.pad(x, [(0, 0), (0, 0)] + [(p, p) for p in padding])
    out = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], w.shape[2:], stride, dilation)]
    y = np.zeros((x.shape[0], w.shape[0], *out), dtype=x.dtype)
    per_in, per_out = w.shape[1], w.shape[0] // groups
    for g in range(groups):
        part = x[:, g * per_in:(g + 1) * per_in]
        for tap in itertools.product(*(range(k) for k in w.shape[2:])):
            window = tuple(slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in zip(tap, dilation, out, stride))
            share = np.einsum("nc...,oc->no...", part[(slice(None), slice(None), *window)],
                              w[(slice(g * per_out, (g + 1) * per_out), slice(None), *tap)])
            y[:, g * per_out:(g + 1) * per_out] += share
    return y if bias is None else y + bias.reshape(-1, *[1] * nd)


CASES = [
    (1, (2, 4, 9), (6, 4, 3), 1, 0, 1, 1), (1, (2, 4, 60), (6, 2, 5), 2, 1, 3, 2),
    (2, (2, 4, 9, 8), (6, 4, 3, 2), 1, 0, 1, 1), (2, (2, 4, 9, 8), (6, 2, 3, 2), 2, 1, 1, 2),
    (2, (2, 4, 9, 8), (6, 4, 3, 3), (2, 3), (1, 0), (1, 2), 1), (2, (3, 6, 7, 5), (6, 1, 3, 3), 1, 1, 1, 6),
    (2, (2, 3, 50, 70), (9, 3, 3, 3), 1, 1, 1, 1), (2, (1, 2, 4, 4), (3, 2, 1, 1), 1, 0, 1, 1),
    (2, (1, 2, 4, 4), (3, 2, 2, 2), 1, 500, 1000, 1), (2, (8, 16, 12, 12), (32, 16, 3, 3), 1, 1, 1, 1),
    (3, (2, 4, 5, 6, 7), (4, 2, 3, 2, 3), 2, 1, 1, 2), (3, (1, 2, 5, 5, 5), (3, 2, 2, 2, 2), 1, 0, 2, 1),
]


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_forward(case, dtype):
    nd, x, w, stride, padding, dilation, groups = case
    x, w, b = (made(*s, dtype=getattr(flambeau, dtype)) for s in (x, w, w[:1]))
    found = getattr(F, f"conv{nd}d")(x, w, b, stride, padding, dilation, groups)
    expected = convolved(array(x), array(w), array(b), stride, padding, dilation, groups)
    tolerance = {"float64": 1e-12, "float32": 1e-5, "bfloat16": 1e-2, "float16": 2e-3}[dtype]
    assert found.dtype == x.dtype
    np.testing.assert_allclose(array(found), expected, rtol=0, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("padding, stride, kernel", [(0, 1, 3), (1, 1, 3), (2, 1, 5), (0, 2, 2), (1, 3, 3), (0, 1, 1)])
def test_rows_of_every_width(padding, stride, kernel, dtype):
    """Few channels: rows are cut into whole vectors where they fill these, and are parts of a flat plane elsewhere."""
    draw = np.random.default_rng(0)
    for width in (*range(kernel, 36), 48, 50, 71, 129):
        x, w, b = (draw.integers(-9, 9, s) for s in ((2, 2, kernel + 2, width), (5, 2, kernel, kernel), (5,)))
        found = F.conv2d(*(flambeau.from_numpy(t).to(getattr(flambeau, dtype)) for t in (x, w, b)), stride, padding)
        np.testing.assert_array_equal(array(found), convolved(x, w, b, stride, padding, 1, 1), err_msg=str(width))


@pytest.mark.parametrize("shape", [(1, 7, 26), (2, 9, 40), (1, 4, 4)], ids=str)
def test_results_do_not_hang_on_threads_batches_or_what_lies_beside(shape):
    x, w = made(6, *shape, dtype=flambeau.float32), made(9, shape[0], 3, 3, dtype=flambeau.float32)
    x[3, 0, 1, 2], x[4, 0, 2, 3] = float("nan"), float("inf")
    expected = F.conv2d(x, w)
    before = flambeau.get_num_threads()
    try:
        for threads in (1, 2, 3):
            flambeau.set_num_threads(threads)
            assert flambeau.equal(F.conv2d(x, w).nan_to_num(7), expected.nan_to_num(7))
    finally:
        flambeau.set_num_threads(before)
    for k in range(6):
        assert flambeau.equal(F.conv2d(x[k:k + 1], w)[0].nan_to_num(7), expected[k].nan_to_num(7))
    assert expected.isnan()[3].sum() == 9 * min(2, expected.shape[2]) * min(3, expected.shape[3])
    assert F.conv2d(x[:0], w).shape == (0, *expected.shape[1:])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_transposed_is_the_adjoint(case):
    """<conv(x), y> = <x, conv_transpose(y)>, and both gradients of convolution fit the same identity."""
    nd, x, w, stride, padding, dilation, groups = case
    x, w = made(*x).requires_grad_(), made(*w).requires_grad_()
    result = getattr(F, f"conv{nd}d")(x, w, None, stride, padding, dilation, groups)
    y = made(*result.shape)
    (result * y).sum().backward()
    np.testing.assert_allclose((x.grad * x).sum().item(), (result * y).sum().item(), rtol=1e-10)
    np.testing.assert_allclose((w.grad * w).sum().item(), (result * y).sum().item(), rtol=1e-10)
    back = getattr(F, f"conv_transpose{nd}d")(y, w.detach(), None, stride, padding, 0, groups, dilation)
    covered = x.grad[(slice(None), slice(None), *(slice(0, n) for n in back.shape[2:]))]
    np.testing.assert_allclose(array(back), array(covered), rtol=0, atol=1e-10)


# Images of few pixels, whose convolutions are matrix products: of one place and of larger filters, with a stride that
# leaves pixels out, with taps that meet nothing but padding. (batch, channels, filters, size, kernel, stride, padding)
FEW_PIXELS = [(1, 64, 300, 7, 1, 1, 0), (3, 300, 64, 7, 1, 1, 0), (2, 130, 128, 8, 1, 2, 0), (1, 128, 96, 1, 1, 1, 0),
              (1, 128, 256, 7, 3, 1, 1), (2, 130, 300, 8, 3, 2, 1), (1, 64, 300, 4, (2, 3), (1, 2), (0, 2)),
              (3, 64, 300, 1, 3, 2, 1), (3, 130, 128, 1, 5, 3, 2), (2, 130, 300, 2, 2, 3, 1)]


@pytest.mark.parametrize("image", [flambeau.contiguous_format, flambeau.channels_last], ids=str)
@pytest.mark.parametrize("filter", [flambeau.contiguous_format, flambeau.channels_last], ids=str)
@pytest.mark.parametrize("case", FEW_PIXELS, ids=str)
def test_halves_of_few_pixels(case, filter, image):
    n, channels, filters, size, k, stride, padding = case
    shapes = (n, channels, size, size), (filters, channels, *((k, k) if isinstance(k, int) else k)), (filters,)
    given = [made(*shape, dtype=flambeau.bfloat16) for shape in shapes]
    g, kept = None, []
    for dtype in (flambeau.float64, flambeau.bfloat16, flambeau.float16):
        x, w, b = (t.to(dtype) for t in given)
        if dtype is not flambeau.float64:
            x, w = x.contiguous(memory_format=image), w.contiguous(memory_format=filter)
        x, w, b = (t.detach().requires_grad_() for t in (x, w, b))
        y = F.conv2d(x, w, b, stride, padding)
        g = made(*y.shape, dtype=flambeau.bfloat16) if g is None else g
        y.backward(g.to(dtype))
        kept.append([array(t) for t in (y, x.grad, w.grad, b.grad)])
    for narrow in kept[1:]:
        for found, expected in zip(narrow, kept[0], strict=True):
            np.testing.assert_allclose(found, expected, rtol=0, atol=2e-2 * np.abs(expected).max())


def test_float32_gradients_agree_with_float64():
    """Sizes that oneDNN takes."""
    x, w = made(8, 16, 12, 12), made(32, 16, 3, 3)
    y = made(8, 32, 12, 12)
    grads = []
    for dtype in (flambeau.float64, flambeau.float32):
        a, b = x.clone().to(dtype).requires_grad_(), w.clone().to(dtype).requires_grad_()
        F.conv2d(a, b, padding=1).backward(y.to(dtype))
        grads.append((array(a.grad), array(b.grad)))
    for wide, narrow in zip(*grads):
        np.testing.assert_allclose(narrow, wide, rtol=0, atol=1e-5 * np.abs(wide).max())


def test_same_valid_and_unbatched():
    x, w = made(2, 7, 6), made(3, 2, 4, 3)
    same = F.conv2d(x, w, padding="same")
    padded = np.pad(array(x)[None], [(0, 0), (0, 0), (1, 2), (1, 1)])
    np.testing.assert_allclose(array(same), convolved(padded, array(w), None, 1, 0, 1, 1)[0], atol=1e-12)
    assert array(F.conv2d(x, w, padding="valid")).shape == (3, 4, 4)


def test_integers_and_complex():
    x, w = flambeau.arange(16).reshape(1, 1, 4, 4), flambeau.arange(4).reshape(1, 1, 2, 2)
    assert array(F.conv2d(x, w)).tolist() == convolved(array(x), array(w), None, 1, 0, 1, 1).tolist()
    a, b = made(1, 2, 5), made(3, 2, 2)
    z = F.conv1d(a * (1 + 2j), b * (3 - 1j))
    expected = convolved(array(a), array(b), None, 1, 0, 1, 1) * (1 + 2j) * (3 - 1j)
    np.testing.assert_allclose(array(z), expected, atol=1e-12)


def test_integers_are_those_of_doubles():
    flambeau.manual_seed(0)
    for case in ({}, {"stride": 2, "padding": 1}, {"dilation": 2, "padding": 3}, {"groups": 3}, {"stride": 3},
                 {"dilation": 1000, "padding": (1000, 500)}):  # too wide for tiles
        groups = case.get("groups", 1)
        for dtype in (flambeau.int64, flambeau.int32, flambeau.uint8):
            x, b = flambeau.randint(0, 9, (2, 6, 11, 13)), flambeau.randint(0, 9, (9,))
            w = flambeau.randint(0, 9, (9, 6 // groups, 3, 2))
            exact = F.conv2d(x.double(), w.double(), b.double(), **case).long()
            assert flambeau.equal(F.conv2d(x.to(dtype), w.to(dtype), b.to(dtype), **case), exact.to(dtype))
            w = flambeau.randint(0, 9, (6, 9 // groups, 3, 2))
            exact = F.conv_transpose2d(x.double(), w.double(), b.double(), **case).long()
            assert flambeau.equal(F.conv_transpose2d(x.to(dtype), w.to(dtype), b.to(dtype), **case), exact.to(dtype))


def test_integers_wrap():
    large = flambeau.full((1, 1, 20), 2 ** 62 + 3)
    y = F.conv1d(large, flambeau.full((1, 1, 5), 7))
    assert y.unique().tolist() == [(5 * 7 * (2 ** 62 + 3) + 2 ** 63) % 2 ** 64 - 2 ** 63]


def test_output_padding():
    y = F.conv_transpose2d(made(1, 2, 3, 3), made(2, 4, 3, 3), None, 2, 1, 1)
    assert tuple(y.shape) == (1, 4, 6, 6)


def zeros(*shape):
    return flambeau.zeros(*shape)


ERRORS = [
    (lambda: F.conv2d(zeros(1, 4, 8, 8), zeros(2, 3, 3, 3)),
     r"weight \[2, 3, 3, 3\] with groups=1 takes 3 input channels, got input \[1, 4, 8, 8\] with 4"),
    (lambda: F.conv2d(zeros(1, 3, 2, 2), zeros(2, 3, 3, 3)), "the kernel is larger than the input"),
    (lambda: F.conv2d(zeros(1, 3, 8, 8), zeros(2, 3, 3, 3), zeros(5)), "bias must hold one number per output channel"),
    (lambda: F.conv2d(zeros(1, 3, 8, 8), zeros(2, 3, 3, 3), None, 0), "non-positive stride"),
    (lambda: F.conv2d(zeros(1, 3, 8, 8), zeros(2, 3, 3, 3), None, 1, -1), "negative padding"),
    (lambda: F.conv2d(zeros(1, 3, 8, 8), zeros(2, 3, 3, 3), groups=0), "groups must be positive"),
    (lambda: F.conv2d(zeros(1, 3, 8, 8), zeros(2, 3, 3, 3).double()), "input is float"),
    (lambda: F.conv2d(zeros(3, 8), zeros(2, 3, 3, 3)), "input must have"),
    (lambda: F.conv2d(zeros(1, 3, 8, 8), zeros(2, 3, 3, 3), None, 2, "same"), "needs stride"),
    (lambda: F.conv2d(zeros(1, 3, 8, 8), zeros(2, 3, 3, 3), padding="all"), "Invalid padding string"),
    (lambda: F.conv_transpose2d(zeros(1, 3, 8, 8), zeros(3, 3, 3, 3), None, 1, 0, 1), "must be below stride"),
    (lambda: F.conv2d(zeros(1, 1, 8, 8), zeros(1, 1, 3, 3), None, 1, 2**40), "(?i)large|overflow|size|memory"),
]


@pytest.mark.parametrize("call, text", ERRORS, ids=[t for _, t in ERRORS])
def test_errors(call, text):
    with pytest.raises(RuntimeError, match=text):
        call()


@pytest.mark.parametrize("size", [(1, 1), (2, 1), (1, 4), (3, 2)])
@pytest.mark.parametrize("form", [
    (3, 1, 1, 1, 1), (5, 1, 2, 1, 1), (3, 2, 1, 1, 1), (3, 1, 2, 2, 2), ((5, 3), 1, (2, 1), 1, 4), (7, 2, 3, 1, 1),
    (4, 3, 2, 1, 1), (3, 1, 4, 1, 1), (3, 5, 3, 2, 2)])
def test_taps_that_meet_padding_alone(size, form):
    """Small images, where outer taps are left out: the sums over an image that is padded by hand, and all gradients."""
    kernel, stride, pad, dilation, groups = form
    kernel, pad = [(v, v) if isinstance(v, int) else v for v in (kernel, pad)]
    flambeau.manual_seed(0)
    x = flambeau.randn(3, 4, *size, dtype=flambeau.float64, requires_grad=True)
    w = flambeau.randn(8, 4 // groups, *kernel, dtype=flambeau.float64, requires_grad=True)
    b = flambeau.randn(8, dtype=flambeau.float64, requires_grad=True)
    found = F.conv2d(x, w, b, stride, pad, dilation, groups)
    wide = F.pad(x, (pad[1] + 9, pad[1] + 9, pad[0] + 9, pad[0] + 9))  # an image too large for anything to be left out
    wanted = F.conv2d(wide, w, b, 1, 0, dilation, groups)[:, :, 9:, 9:][..., ::stride, ::stride]
    wanted = wanted[:, :, :found.shape[2], :found.shape[3]]
    assert flambeau.allclose(found, wanted, rtol=1e-12, atol=1e-12)
    g = flambeau.randn(found.shape, dtype=flambeau.float64)
    for mine, other in zip(flambeau.autograd.grad(found, (x, w, b), g), flambeau.autograd.grad(wanted, (x, w, b), g),
                           strict=True):
        assert flambeau.allclose(mine, other, rtol=1e-12, atol=1e-12)
    single = F.conv2d(*(v.detach().float() for v in (x, w, b)), stride, pad, dilation, groups)
    assert flambeau.allclose(single.double(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mask", [(True, True, True), (False, True, False), (True, False, True), (False, False, False)])
def test_gradients_by_name_as_aten_has_them(mask):
    """aten.convolution_backward: sizes of the bias, three bools, None for what they leave out."""
    flambeau.manual_seed(0)
    x, w, b = (flambeau.randn(*s, requires_grad=True) for s in ((2, 4, 6, 7), (6, 2, 3, 3), (6,)))
    form = (2, 1), (1, 0), (1, 1), False, (0, 0), 2
    y = flambeau.convolution(x, w, b, *form)
    g = flambeau.randn(y.shape)
    expected = flambeau.autograd.grad(y, (x, w, b), g)
    found = flambeau.ops.aten.convolution_backward.default(g, x, w, [6], *form, mask)
    for mine, other, asked in zip(found, expected, mask, strict=True):
        if asked:
            flambeau.testing.assert_close(mine, other)
        else:
            assert mine is None
    with pytest.raises(TypeError, match="output_mask"):
        flambeau.ops.aten.convolution_backward(g, x, w, [6], *form, 7)


def test_a_mode_and_a_graph_see_the_gradients_call():
    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func is flambeau.ops.aten.convolution_backward.default:
                seen.append(args[3:])
            return func(*args, **(kwargs or {}))

    x = flambeau.randn(2, 3, 5, 5)
    w, b = flambeau.randn(4, 3, 3, 3, requires_grad=True), flambeau.randn(4, requires_grad=True)
    with Mode():
        F.conv2d(x, w, b).sum().backward()
    assert seen == [([4], [1, 1], [0], [1, 1], False, [0], 1, [False, True, True])]

    def gradients(x, w):
        return flambeau.autograd.grad(F.conv2d(x, w).square().sum(), (w,))

    expected = gradients(x, w)[0]
    graph = make_fx(lambda x, w: gradients(x, w.requires_grad_()))(x, w.detach())
    flambeau.testing.assert_close(graph(x, w.detach())[0], expected)
    assert any(n.target is flambeau.ops.aten.convolution_backward.default for n in graph.graph.nodes)

    @flambeau.compile
    def step(x, w):
        return gradients(x, w)[0]
    for _ in range(3):
        flambeau.testing.assert_close(step(x, w), expected)
