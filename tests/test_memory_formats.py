"""channels_last: which operators answer it in kind, with the same numbers and gradients."""

import pytest

import flambeau
import flambeau.nn.functional as F

LAST = flambeau.channels_last


def image(*shape):
    flambeau.manual_seed(0)
    return flambeau.randn(shape, dtype=flambeau.float64)


@pytest.mark.parametrize("call", [
    lambda x: x + 1, lambda x: x * x, lambda x: x.relu(), lambda x: x.clone(), lambda x: flambeau.zeros_like(x),
    lambda x: x + flambeau.ones(3, 1, 1), lambda x: F.conv2d(x, flambeau.ones(6, 3, 2, 2, dtype=x.dtype)),
    lambda x: F.conv2d(x, flambeau.ones(3, 1, 2, 2, dtype=x.dtype), groups=3),
    lambda x: F.conv_transpose2d(x, flambeau.ones(3, 4, 2, 2, dtype=x.dtype)),
    lambda x: F.batch_norm(x, None, None, training=True), lambda x: F.group_norm(x, 3),
    lambda x: F.batch_norm(x, flambeau.zeros(3).double(), flambeau.ones(3).double()),
    lambda x: F.max_pool2d(x, 2), lambda x: F.avg_pool2d(x, 2), lambda x: F.adaptive_avg_pool2d(x, 2),
    lambda x: F.adaptive_max_pool2d(x, 2), lambda x: F.interpolate(x, scale_factor=2),
    lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), lambda x: F.pad(x, (1, 1)),
    lambda x: flambeau.cat([x, x], 1), lambda x: x.to(flambeau.float32, memory_format=flambeau.preserve_format),
])
def test_results_keep_the_format(call):
    x = image(2, 3, 4, 5)
    plain, odd = x.clone().requires_grad_(), x.contiguous(memory_format=LAST).requires_grad_()
    expected, found = call(plain), call(odd)
    assert found.is_contiguous(memory_format=LAST) and not found.is_contiguous()
    assert flambeau.allclose(found, expected)
    if expected.requires_grad:
        weights = image(*expected.shape).to(expected.dtype)
        (expected * weights).sum().backward()
        (found * weights).sum().backward()
        assert flambeau.allclose(odd.grad, plain.grad)
    assert call(x).is_contiguous()


@pytest.mark.parametrize("dim", range(5))
def test_a_stack_of_images_lies_as_cat_does(dim):
    plain = [image(2, 3, 4, 5) + k for k in range(3)]
    odd = [x.contiguous(memory_format=LAST).requires_grad_() for x in plain]
    found, expected = flambeau.stack(odd, dim), flambeau.stack(plain, dim)
    assert flambeau.equal(found, expected)
    if dim < 4:
        assert found.stride() == flambeau.cat(odd, dim).unflatten(dim, (3, -1)).stride()
    else:
        assert found.is_contiguous()
    out = flambeau.empty(0, dtype=flambeau.float64)
    assert flambeau.equal(flambeau.stack([x.detach() for x in odd], dim, out=out), expected)
    found.backward(weights := image(*expected.shape))
    for x, part in zip(odd, weights.unbind(dim), strict=True):
        assert flambeau.equal(x.grad, part)
    assert flambeau.stack([odd[0], plain[1]], dim).is_contiguous()
    assert flambeau.stack([x.detach()[:, :2] for x in odd], dim).is_contiguous() == (dim == 4)


def test_a_stack_of_more_images_than_can_be_counted():
    x = flambeau.empty((2 ** 31, 2 ** 15, 2 ** 5, 2 ** 5), device="meta", memory_format=LAST)
    assert flambeau.stack([x] * 2, 1).stride(2) == 1
    for dim in range(5):
        with pytest.raises(RuntimeError, match="more elements than an int64 can count"):
            flambeau.stack([x] * 128, dim)


def test_weights_decide_too():
    layer = flambeau.nn.Conv2d(3, 4, 2).to(memory_format=LAST)
    assert layer.weight.is_contiguous(memory_format=LAST)
    assert layer(flambeau.ones(2, 3, 4, 5)).is_contiguous(memory_format=LAST)


def test_volumes():
    x = image(2, 3, 2, 4, 5).contiguous(memory_format=flambeau.channels_last_3d)
    for y in (F.conv3d(x, flambeau.ones(2, 3, 1, 2, 2, dtype=x.dtype)), F.max_pool3d(x, 2),
              F.batch_norm(x, None, None, training=True), F.interpolate(x, scale_factor=2)):
        assert y.stride(1) == 1


def test_a_whole_network():
    flambeau.manual_seed(0)
    net = flambeau.nn.Sequential(flambeau.nn.Conv2d(3, 8, 3, padding=1), flambeau.nn.BatchNorm2d(8), flambeau.nn.ReLU(),
                                 flambeau.nn.MaxPool2d(2), flambeau.nn.Conv2d(8, 4, 1)).double()
    x = image(2, 3, 8, 8)
    expected = net(x)
    found = net.to(memory_format=LAST)(x.contiguous(memory_format=LAST))
    assert found.is_contiguous(memory_format=LAST) and flambeau.allclose(found, expected)


@pytest.mark.parametrize("groups", [1, 4, 8])
@pytest.mark.parametrize("form", [(3, 1, 1, 1), (1, 1, 0, 1), (3, 2, 1, 1), (3, 1, 2, 2), (5, 2, 0, 1)])
@pytest.mark.parametrize("n, size", [(1, 7), (4, 33)])
def test_convolutions_of_channels_last_images(n, size, form, groups):
    """Results and gradients as those of contiguous images, and laid out as the images are."""
    k, stride, padding, dilation = form
    x, w, b = flambeau.randn(n, 8, size, size + 1), flambeau.randn(16, 8 // groups, k, k), flambeau.randn(16)
    made = []
    for layout in (flambeau.contiguous_format, flambeau.channels_last):
        given = [x.clone(memory_format=layout), w.clone(), b.clone()]
        for t in given:
            t.requires_grad_()
        y = flambeau.nn.functional.conv2d(*given, stride, padding, dilation, groups)
        flambeau.manual_seed(0)
        y.backward(flambeau.randn(y.shape))
        assert y.is_contiguous(memory_format=layout) and given[0].grad.is_contiguous(memory_format=layout)
        made.append([y, *[t.grad for t in given]])
    for found, expected in zip(*made, strict=True):
        assert flambeau.allclose(found, expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max()))


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_of_channels_last_images(training):
    x, g = flambeau.randn(3, 8, 5, 6), flambeau.randn(3, 8, 5, 6)
    made = []
    for layout in (flambeau.contiguous_format, flambeau.channels_last):
        given = [x.clone(memory_format=layout).requires_grad_(), *(flambeau.ones(8, requires_grad=True) for _ in "wb")]
        stats = [flambeau.zeros(8), flambeau.ones(8)]
        y = flambeau.nn.functional.batch_norm(given[0], *stats, *given[1:], training)
        y.backward(g)
        assert y.is_contiguous(memory_format=layout) and given[0].grad.is_contiguous(memory_format=layout)
        made.append([y, *stats, *[t.grad for t in given]])
    for found, expected in zip(*made, strict=True):
        assert flambeau.allclose(found, expected, rtol=1e-5, atol=1e-5)


KERNELS = {
    "windows that overlap": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "the padding does not count": lambda x: F.avg_pool2d(x, (2, 3), 1, 1, count_include_pad=False),
    "a divisor": lambda x: F.avg_pool2d(x, 3, 3, ceil_mode=True, divisor_override=5),
    "long windows": lambda x: F.avg_pool2d(x, (3, 9), 1),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (3, 4)),
    "one mean": lambda x: F.adaptive_avg_pool2d(x, 1),
    "groups": lambda x: F.group_norm(x, x.shape[1] // 3, *(flambeau.linspace(k, 2, x.shape[1], dtype=x.dtype)
                                                           for k in (1, -1))),
    "one group": lambda x: F.group_norm(x, 1),
    "nearest": lambda x: F.interpolate(x, (7, 23)),
    "bilinear": lambda x: F.interpolate(x, (7, 23), mode="bilinear"),
    "corners": lambda x: F.interpolate(x, (23, 7), mode="bilinear", align_corners=True),
    "bicubic": lambda x: F.interpolate(x, (7, 23), mode="bicubic"),
    "antialiased": lambda x: F.interpolate(x, (5, 7), mode="bilinear", antialias=True),
}


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float16, flambeau.float64])
@pytest.mark.parametrize("shape", [(2, 6, 11, 13), (1, 69, 9, 9)])
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_of_channels_last_images(name, shape, dtype):
    exact = image(*shape).to(dtype).double().requires_grad_()
    last = exact.detach().to(dtype).contiguous(memory_format=LAST).requires_grad_()
    expected, found = KERNELS[name](exact), KERNELS[name](last)
    assert found.dtype == dtype and found.shape == expected.shape
    grad = flambeau.randn(expected.shape).to(dtype)
    expected.backward(grad.double())
    found.backward(grad.contiguous(memory_format=LAST))
    error = {flambeau.float16: 2e-2, flambeau.float32: 2e-5, flambeau.float64: 1e-12}[dtype]
    assert flambeau.allclose(found.double(), expected, atol=error, rtol=error)
    assert flambeau.allclose(last.grad.double(), exact.grad, atol=2 * error, rtol=error)


@pytest.mark.parametrize("name", ["windows that overlap", "nearest", "bilinear", "bicubic"])
def test_both_layouts_give_the_same_bits(name):
    x = flambeau.randn(2, 5, 12, 14)
    assert flambeau.equal(KERNELS[name](x), KERNELS[name](x.contiguous(memory_format=LAST)))


def test_pooled_volumes_of_channels_last_images():
    x = flambeau.randn(2, 5, 6, 7, 8)
    last = x.contiguous(memory_format=flambeau.channels_last_3d)
    for call in (lambda x: F.avg_pool3d(x, 2, 1, 1), lambda x: F.adaptive_avg_pool3d(x, (2, 3, 5)),
                 lambda x: F.interpolate(x, (5, 6, 7), mode="trilinear"), lambda x: F.group_norm(x, 5)):
        assert flambeau.allclose(call(last), call(x), atol=1e-5) and call(last).stride(1) == 1


@pytest.mark.parametrize("name", ["silu", "hardswish", "elu"])
def test_what_a_write_in_place_keeps_for_its_gradient_lies_as_it_did(name):
    x = image(2, 5, 3, 4).contiguous(memory_format=LAST).requires_grad_()
    y = getattr(F, name)(x * 1, inplace=True)
    kept = getattr(y.grad_fn, "_saved_self", None)
    assert kept is not None and kept.stride() == x.stride() and kept.stride(1) == 1
    assert flambeau.equal(kept, x.detach())


def test_relu6_in_place_keeps_no_copy():
    x = flambeau.linspace(-2, 8, 24).view(1, 2, 3, 4).requires_grad_()
    y = F.relu6(x * 1, inplace=True)
    assert y.grad_fn._saved_result.data_ptr() == y.data_ptr()
    y.sum().backward()
    assert flambeau.equal(x.grad, ((x > 0) & (x < 6)).float())


def test_conversions_keep_the_order_of_dimensions_that_a_copy_keeps():
    images = flambeau.randn(4, 3, 8, 8).contiguous(memory_format=flambeau.channels_last)[..., ::2, ::2]
    for x in (images, flambeau.randn(3, 4, 5).permute(2, 0, 1)[:, ::2], flambeau.randn(4, 4).expand(2, 4, 4).mT):
        assert x.double().stride() == x.to(flambeau.float32, copy=True).stride() == x.clone().stride()
    assert images.half().is_contiguous(memory_format=flambeau.channels_last)


@pytest.mark.parametrize("call", [
    lambda x: x[[1, 0]], lambda x: x[flambeau.tensor([[1, 0], [0, 1]])].flatten(0, 1),
    lambda x: x.sort(1).values, lambda x: x.sort(2).indices, lambda x: x[::2].sort(1).values, lambda x: x.argsort(3)])
def test_what_is_picked_and_sorted_keeps_the_order_of_dimensions(call):
    x = image(2, 3, 4, 5)
    last = x.contiguous(memory_format=LAST)
    assert flambeau.equal(call(last), call(x)) and call(last).is_contiguous(memory_format=LAST)


def test_places_stay_where_they_are_in_a_permuted_tensor():
    x = flambeau.randn(2, 5, 3, 4).permute(0, 2, 1, 3)
    i = flambeau.tensor([1, 0])
    for found, strides in ((x[:, i], (40, 20, 4, 1)), (x[i, i], (20, 4, 1)), (x[..., i, :], (24, 8, 4, 1))):
        assert found.stride() == strides
    assert flambeau.equal(x[:, i], x.contiguous()[:, i]) and flambeau.equal(x[i, i], x.contiguous()[i, i])


def test_attention_lies_as_its_query_does():
    parts = flambeau.randn(2, 7, 3, 4, 8).unbind(2)
    q, k, v = (part.transpose(1, 2).requires_grad_() for part in parts)
    y = F.scaled_dot_product_attention(q, k, v)
    assert y.transpose(1, 2).is_contiguous()
    grads = flambeau.autograd.grad(y.sum(), (q, k, v))
    assert all(g.transpose(1, 2).is_contiguous() for g in grads)
    flat = F.scaled_dot_product_attention(*(t.detach().contiguous() for t in (q, k, v)))
    assert flambeau.equal(flat, y) and flat.is_contiguous()


def test_results_that_are_contiguous_however_the_input_lies():
    x = flambeau.rand(2, 3, 4, 4).to(memory_format=LAST)
    functional = flambeau.nn.functional
    for name, y in {"masked_fill": x.masked_fill(x > 0.5, 0), "logsigmoid": functional.logsigmoid(x),
                    "renorm": x.renorm(2, 0, 1.0), "rot90": x.rot90(0, (2, 3)),
                    "pad": functional.pad(x, (1, 1, 1, 1), mode="circular")}.items():
        assert y.is_contiguous(), name
    halves = x.transpose(1, 2).bfloat16()
    assert halves.masked_fill(halves > 0.5, 0).view(-1).numel() == 96
