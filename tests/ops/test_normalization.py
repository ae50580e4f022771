"""softmax and the normalisations against their formulas, with first and second derivatives."""

import numpy as np
import pytest

import flambeau
import flambeau.nn.functional as F
from flambeau.autograd.gradcheck import gradcheck, gradgradcheck
from flambeau.ops.kinds import OPS

RNG = np.random.default_rng(0)
TOLERANCE = {np.float64: 1e-10, np.float32: 2e-5}


def close(found, expected, dtype=np.float64):
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.bfloat16, flambeau.float16], ids=str)
@pytest.mark.parametrize("rows, width", [(1, 1024), (65, 1024), (129, 33), (200, 700), (37, 2000), (9, 5), (3, 4097)])
def test_layer_norm_gradient_of_many_rows(rows, width, dtype):
    """Rows are taken two at a time, in pieces, the last of which may be odd."""
    x = flambeau.randn(rows, width).to(dtype).requires_grad_()
    w, b = (flambeau.randn(width).to(dtype).requires_grad_() for _ in range(2))
    g = flambeau.randn(rows, width).to(dtype)
    found = flambeau.autograd.grad(F.layer_norm(x, (width,), w, b), (x, w, b), g)
    exact = [v.detach().double().requires_grad_() for v in (x, w, b)]
    hat = (exact[0] - exact[0].mean(1, True)) / (exact[0].var(1, correction=0, keepdim=True) + 1e-5).sqrt()
    expected = flambeau.autograd.grad(hat * exact[1] + exact[2], exact, g.double())
    near = 1e-4 if dtype == flambeau.float32 else 2e-2
    for a, e in zip(found, expected, strict=True):
        assert flambeau.allclose(a.double(), e, rtol=near, atol=near * float(e.abs().max()))


def batch_norm_in_training(x, w, b):
    return F.batch_norm(x, None, None, w, b, training=True)


def batch_norm_of_running(x, w, b):
    mean, var = flambeau.linspace(-1, 1, len(w)), flambeau.linspace(0.5, 2, len(w))
    return F.batch_norm(x, mean.to(w), var.to(w), w, b)


def groups_of(x, w, b):
    return F.group_norm(x, 1 if len(w) % 4 else 4, w, b)


@pytest.mark.parametrize("norm", [batch_norm_in_training, batch_norm_of_running, groups_of])
@pytest.mark.parametrize("dtype", [flambeau.float64, flambeau.float32, flambeau.bfloat16, flambeau.float16], ids=str)
@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (1, 16, 9, 9), (3, 17, 12, 6), (5, 100, 8, 9), (2, 1100, 3, 3),
                                   (70, 24, 1, 2)], ids=str)
def test_norms_of_images_whose_channels_lie_last(norm, dtype, shape):
    last = flambeau.channels_last
    x, g = ((flambeau.randn(shape) * 2 + 1).to(dtype).contiguous(memory_format=last) for _ in range(2))
    w, b = (flambeau.randn(shape[1]).to(dtype) for _ in range(2))
    found, expected = [], []
    for given, kept in (((x, w, b, g), found), (tuple(t.double().contiguous() for t in (x, w, b, g)), expected)):
        inputs = [t.detach().requires_grad_() for t in given[:3]]
        y = norm(*inputs)
        kept += [y, *flambeau.autograd.grad(y, inputs, given[3])]
    assert found[0].is_contiguous(memory_format=last)
    near = {flambeau.float64: 1e-9, flambeau.float32: 1e-4}.get(dtype, 2e-2)
    for f, e in zip(found, expected, strict=True):
        assert flambeau.allclose(f.double(), e, rtol=near, atol=near * float(e.abs().max()))


@pytest.mark.parametrize("dtype", [flambeau.float64, flambeau.float32, flambeau.bfloat16, flambeau.float16], ids=str)
@pytest.mark.parametrize("shape, dim", [((5, 7), 0), ((300, 40), 0), ((2, 33, 700), 1), ((9, 3, 4, 5), 2)], ids=str)
@pytest.mark.parametrize("op", [flambeau.softmax, flambeau.log_softmax])
def test_gradient_of_softmax_over_columns(op, shape, dim, dtype):
    x, g = (flambeau.randn(shape).to(dtype) for _ in range(2))
    grads = []
    for of in (dtype, flambeau.float64):
        v = x.to(of).requires_grad_()
        grads.append(flambeau.autograd.grad(op(v, dim), v, g.to(of))[0])
    near = {flambeau.float64: 1e-10, flambeau.float32: 1e-5}.get(dtype, 4e-2)
    assert flambeau.allclose(grads[0].double(), grads[1], rtol=near, atol=near)


@pytest.mark.parametrize("norm", [F.layer_norm, F.rms_norm])
@pytest.mark.parametrize("dtype", [flambeau.float64, flambeau.float32, flambeau.bfloat16, flambeau.float16], ids=str)
@pytest.mark.parametrize("rows, width", [(75, 100), (600, 33), (3, 4100)])
def test_the_gradient_of_the_input_alone(norm, rows, width, dtype):
    """It is the same, to the bit, as beside those of the parameters and on one thread."""
    x = flambeau.randn(rows, width).to(dtype).requires_grad_()
    x.detach()[1, 3] = float("nan")
    w = flambeau.rand(width).to(dtype).requires_grad_()
    g = flambeau.randn(rows, width).to(dtype)
    both = flambeau.autograd.grad(norm(x, (width,), w), (x, w), g)
    alone, = flambeau.autograd.grad(norm(x, (width,), w.detach()), x, g)
    assert flambeau.equal(both[0].nan_to_num(9), alone.nan_to_num(9))
    assert alone[1].isnan().all() and not alone[0].isnan().any() and both[1].isnan().any()
    threads = flambeau.get_num_threads()
    try:
        flambeau.set_num_threads(1)
        again, = flambeau.autograd.grad(norm(x, (width,), w.detach()), x, g)
    finally:
        flambeau.set_num_threads(threads)
    assert flambeau.equal(again.nan_to_num(9), alone.nan_to_num(9))


def test_a_float32_gradient_of_rows_of_halves():
    x = flambeau.randn(6, 40).bfloat16()
    g = flambeau.randn(6, 40)
    found = OPS["_layer_norm_backward"](g, x, (40,), None, 1e-5, True)
    expected = OPS["_layer_norm_backward"](g, x.float(), (40,), None, 1e-5, True)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == flambeau.bfloat16 and flambeau.equal(a, b.bfloat16())


def normalised(a, axes, eps=1e-5):
    return (a - a.mean(axes, keepdims=True)) / np.sqrt(a.var(axes, keepdims=True) + eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(5,), (4, 10), (3, 1001), (2, 40, 70), (2, 3, 4, 5), (1, 6000)], ids=str)
def test_softmax(shape, dtype):
    a = (RNG.standard_normal(shape) * 5).astype(dtype)
    x = flambeau.from_numpy(a)
    for dim in range(a.ndim):
        e = np.exp((a - a.max(dim, keepdims=True)).astype(np.float64))
        expected = e / e.sum(dim, keepdims=True)
        close(x.softmax(dim), expected, dtype)
        close(x.log_softmax(dim), np.log(expected), dtype)
        g = RNG.standard_normal(shape).astype(dtype)
        for log, y, right in ((False, x.softmax(dim), expected * (g - (g * expected).sum(dim, keepdims=True))),
                              (True, x.log_softmax(dim), g - expected * g.sum(dim, keepdims=True))):
            leaf = flambeau.from_numpy(a.copy()).requires_grad_()
            (leaf.log_softmax(dim) if log else leaf.softmax(dim)).backward(flambeau.from_numpy(g))
            close(leaf.grad, right, dtype)
            assert y.shape == x.shape


@pytest.mark.parametrize("dtype", [flambeau.bfloat16, flambeau.float16], ids=str)
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("shape", [(3, 1), (300, 49), (5, 1001), (2, 5000), (4, 16), (0, 7)], ids=str)
def test_gradients_of_softmax_of_halves(shape, log, dtype):
    """They are computed in float32 and rounded once; a NaN stays in its row."""
    y, g = (flambeau.randn(shape).softmax(1) for _ in range(2))
    y, g = (y.log() if log else y).to(dtype), g.to(dtype)
    if shape[0] > 2:
        g[1, 0] = float("nan")
    backward = OPS["_log_softmax_backward_data" if log else "_softmax_backward_data"]
    found, wide = backward(g, y, 1, dtype), backward(g.float(), y.float(), 1, flambeau.float32)
    assert found.dtype == dtype and flambeau.equal(found.nan_to_num(9), wide.to(dtype).nan_to_num(9))


def test_softmax_of_extreme_rows():
    inf, nan = float("inf"), float("nan")
    x = flambeau.tensor([[0.0, -inf, -200.0], [-inf, -inf, -inf], [inf, 0.0, 1.0], [nan, 0.0, 1.0],
                         [500.0, 500.0, -inf]])
    y = x.softmax(1)
    assert y[0].tolist() == [1, 0, 0] and y[4].tolist() == [0.5, 0.5, 0]
    assert y[1].isnan().all() and y[2].isnan().any() and y[3].isnan().all()
    assert F.softmax(flambeau.tensor([0, 0]), dim=0, dtype=flambeau.float32).tolist() == [0.5, 0.5]
    with pytest.raises(RuntimeError, match="floating"):
        flambeau.tensor([1, 2]).softmax(0)


@pytest.mark.parametrize("shape", [(4, 6, 5), (8, 6), (2, 6, 3, 3), (70, 6, 9, 9), (300, 6)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_batch_norm(shape, dtype):
    a = (RNG.standard_normal(shape) * 2 + 3).astype(dtype)
    w, b = RNG.standard_normal((2, 6)).astype(dtype)
    axes = tuple(d for d in range(a.ndim) if d != 1)
    wide = (1, 6) + (1,) * (a.ndim - 2)
    x, mean, var = flambeau.from_numpy(a), flambeau.zeros(6), flambeau.ones(6)
    mean, var = mean.to(x.dtype), var.to(x.dtype)
    y = F.batch_norm(x, mean, var, flambeau.from_numpy(w), flambeau.from_numpy(b), True, 0.1, 1e-5)
    close(y, normalised(a.astype(np.float64), axes) * w.reshape(wide) + b.reshape(wide), dtype)
    close(mean, 0.1 * a.mean(axes), dtype)
    close(var, 0.9 + 0.1 * a.var(axes, ddof=1), dtype)
    z = F.batch_norm(x, mean, var)
    close(z, (a - mean.numpy().reshape(wide)) / np.sqrt(var.numpy().reshape(wide) + 1e-5), dtype)


def test_layer_group_instance_and_rms_norm():
    a, w, b = RNG.standard_normal((4, 6, 5)), RNG.standard_normal(5), RNG.standard_normal(5)
    x, cw = flambeau.from_numpy(a), RNG.standard_normal((2, 6))
    t = flambeau.from_numpy
    close(F.layer_norm(x, (5,), t(w), t(b)), normalised(a, (2,)) * w + b)
    close(F.layer_norm(x.transpose(0, 1), (4, 5)), normalised(a.transpose(1, 0, 2), (1, 2)))
    close(F.rms_norm(x, (5,), t(w), 1e-6), a / np.sqrt((a * a).mean(2, keepdims=True) + 1e-6) * w)
    grouped = normalised(a.reshape(4, 3, 2, 5), (2, 3)).reshape(4, 6, 5)
    close(F.group_norm(x, 3, t(cw[0]), t(cw[1])), grouped * cw[0][:, None] + cw[1][:, None])
    close(F.instance_norm(x), normalised(a, (2,)))
    big = RNG.standard_normal((2, 4, 9000))
    close(F.group_norm(t(big), 2), normalised(big.reshape(2, 2, -1), (2,)).reshape(big.shape))
    unit = F.normalize(x, dim=-1)
    close(unit.square().sum(-1), np.ones((4, 6)))


def test_halves_are_computed_in_float32():
    x = flambeau.from_numpy(RNG.standard_normal((3, 500)).astype(np.float32)).to(flambeau.bfloat16)
    for call in (lambda v: v.softmax(1), lambda v: F.layer_norm(v, (500,)),
                 lambda v: F.batch_norm(v, None, None, training=True)):
        assert call(x).dtype == flambeau.bfloat16
        assert (call(x) == call(x.to(flambeau.float32)).to(flambeau.bfloat16)).all()


def leaf(*shape):
    return flambeau.from_numpy(RNG.standard_normal(shape)).requires_grad_()


NORMS = {
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (2, 3), w, b), (4, 2, 3), (2, 3)),
    "rms_norm": (lambda x, w, b: F.rms_norm(x, (2, 3), w, 1e-5) + b, (4, 2, 3), (2, 3)),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), (2, 4, 3), (4,)),
    "batch_norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), (3, 2, 2, 2), (2,)),
    "batch_norm rows": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), (6, 3), (3,)),
    "batch_norm eval": (lambda x, w, b: F.batch_norm(x, flambeau.zeros(3).double(), flambeau.ones(3).double(), w, b),
                        (4, 3, 2), (3,)),
}


@pytest.mark.parametrize("name", NORMS)
def test_derivatives(name):
    function, shape, affine = NORMS[name]
    inputs = (leaf(*shape), leaf(*affine), leaf(*affine))
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs)
    if name not in ("rms_norm",):
        assert gradgradcheck(lambda x: function(x, None, None), inputs[:1])


def test_bad_arguments():
    x = flambeau.zeros(2, 6)
    with pytest.raises(RuntimeError, match="normalized_shape"):
        F.layer_norm(x, (5,))
    with pytest.raises(RuntimeError, match="cannot be divided into num_groups"):
        F.group_norm(x, 4)
    with pytest.raises(RuntimeError, match="weight"):
        F.layer_norm(x, (6,), flambeau.zeros(5))
    with pytest.raises(ValueError, match="more than one value to have a variance"):
        F.batch_norm(flambeau.zeros(1, 6), None, None, training=True)
    with pytest.raises(RuntimeError, match="running_mean"):
        F.batch_norm(x, None, None)


def test_empty_input():
    for call, shape in ((lambda x: F.layer_norm(x, (4,)), (0, 4)), (lambda x: F.layer_norm(x, (0,)), (3, 0)),
                        (lambda x: F.group_norm(x, 2), (0, 4, 3)), (lambda x: F.group_norm(x, 2), (2, 4, 0)),
                        (lambda x: F.batch_norm(x, None, None, training=True), (2, 0, 3)),
                        (lambda x: F.batch_norm(x, flambeau.zeros(4), flambeau.ones(4)), (0, 4)),
                        (lambda x: x.softmax(0), (0, 3)), (lambda x: x.log_softmax(1), (3, 0))):
        x = flambeau.zeros(shape, requires_grad=True)
        y = call(x)
        assert y.shape == shape
        y.sum().backward()
        assert x.grad.shape == shape


def test_group_norm_of_large_images_with_channels_last():
    """The sums of a sample are taken in parts; the gradient once took their number for the number of channels."""
    x, g = (flambeau.from_numpy(RNG.standard_normal((2, 32, 56, 56)).astype(np.float32)) for _ in range(2))
    weight, bias = (flambeau.from_numpy(RNG.standard_normal(32).astype(np.float32)) for _ in range(2))

    def results(format):
        inputs = [x.contiguous(memory_format=format), weight, bias]
        inputs = [t.detach().clone().requires_grad_() for t in inputs]
        y = F.group_norm(inputs[0], 4, inputs[1], inputs[2])
        return [y.detach(), *flambeau.autograd.grad(y, inputs, g.contiguous(memory_format=format))]

    for last, plain in zip(results(flambeau.channels_last), results(flambeau.contiguous_format), strict=True):
        np.testing.assert_allclose(last.numpy(), plain.numpy(), rtol=2e-5, atol=2e-3 if plain.ndim == 1 else 2e-5)


@pytest.mark.parametrize("dtype", [flambeau.float64, flambeau.float32, flambeau.bfloat16], ids=str)
@pytest.mark.parametrize("groups, shape", [(64, (2, 64, 9, 13)), (5, (3, 35, 4, 5)), (3, (1, 300, 11, 7)),
                                           (2, (2, 2, 90, 80))], ids=str)
def test_group_norm_of_columns(groups, shape, dtype):
    """Channels that lie last are columns: read block by block, with means far from zero; the same on one thread."""
    x = (flambeau.randn(shape) + 100).to(dtype).requires_grad_()
    w = flambeau.rand(shape[1]).to(dtype).requires_grad_()
    g = flambeau.randn(shape).to(dtype)

    def gradients(x, w, g):
        y = F.group_norm(x, groups, w)
        return y, *flambeau.autograd.grad(y, (x, w), g)

    expected = gradients(x.double(), w.double(), g.double())
    last = [t.detach().contiguous(memory_format=flambeau.channels_last) for t in (x, g)]
    threads, found = flambeau.get_num_threads(), []
    try:
        for count in (threads, 1):
            flambeau.set_num_threads(count)
            found.append(gradients(last[0].requires_grad_(), w, last[1]))
    finally:
        flambeau.set_num_threads(threads)
    near = {flambeau.float64: 1e-9, flambeau.float32: 1e-4, flambeau.bfloat16: 2e-2}[dtype]
    for a, b, e in zip(*found, expected, strict=True):
        assert flambeau.equal(a, b)
        assert flambeau.allclose(a.double(), e, rtol=near, atol=near * float(e.abs().max()))


def test_batch_norm_of_an_empty_batch():
    weight, x = flambeau.ones(3, requires_grad=True), flambeau.zeros(0, 3, 2, requires_grad=True)
    mean, var = flambeau.zeros(3), flambeau.ones(3)
    flambeau.nn.functional.batch_norm(x, mean, var, weight, training=True).sum().backward()
    assert weight.grad.tolist() == [0, 0, 0] and mean.tolist() == [0, 0, 0] and var.tolist() == [1, 1, 1]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", [(0, 3), (0, 3, 2), (0, 3, 2, 2)])
def test_batch_norm_of_an_empty_batch_twice(shape, training):
    x, w = flambeau.zeros(shape, requires_grad=True), flambeau.ones(3, requires_grad=True)
    y = F.batch_norm(x, flambeau.zeros(3), flambeau.ones(3), w, training=training)
    g, = flambeau.autograd.grad(y.sum(), x, create_graph=True)
    g.sum().backward()
    assert x.grad.shape == shape and w.grad.tolist() == [0, 0, 0]


@pytest.mark.parametrize("own", [True, False])
def test_instance_norm_of_channels_last_lies_in_order(own):
    x = flambeau.randn(2, 3, 4, 5)
    statistics = flambeau.zeros(3), flambeau.ones(3)
    found = [flambeau.nn.functional.instance_norm(input, *statistics, use_input_stats=own, momentum=0.0)
             for input in (x, x.to(memory_format=flambeau.channels_last))]
    assert found[1].is_contiguous() and flambeau.allclose(*found, atol=1e-6)
