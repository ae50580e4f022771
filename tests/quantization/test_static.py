"""Operators of static quantization: each result is the float operator's on the same numbers, to one code.

Sums of products are exact, so linear layers and convolutions are compared with integers of float64, code by code.
"""

import itertools

import pytest

import flambeau
from flambeau import nn

F, Q = nn.functional, flambeau.ops.quantized
SCALE, ZERO = 0.04, 90
DTYPES = {flambeau.quint8: (0, 255, 100), flambeau.qint8: (-128, 127, 3)}


def codes(*shape, dtype=flambeau.quint8, scale=0.03, zero=None, last=False):
    _, _, usual = DTYPES[dtype]
    x = flambeau.randn(shape)
    x = x.contiguous(memory_format=flambeau.channels_last) if last else x
    return flambeau.quantize_per_tensor(x, scale, usual if zero is None else zero, dtype)


def assert_close(found, numbers):
    """`found` has the codes that are nearest to these numbers; where two are, either."""
    low, high, _ = DTYPES[found.dtype]
    exact = numbers.double() / found.q_scale() + found.q_zero_point()
    assert found.shape == exact.shape
    off = (found.int_repr().double() - exact.clamp(low, high)).abs()
    assert off.numel() == 0 or off.max().item() <= 0.5 + 1e-4


# --- pointwise --------------------------------------------------------------------------------------------------------

OF_TWO = {"add": lambda a, b: a + b, "add_relu": lambda a, b: (a + b).relu(), "mul": lambda a, b: a * b,
          "mul_relu": lambda a, b: (a * b).relu()}
OF_NUMBER = {"add_scalar": lambda a, b: a + b, "add_scalar_relu": lambda a, b: (a + b).relu(),
             "mul_scalar": lambda a, b: a * b, "mul_scalar_relu": lambda a, b: (a * b).relu()}
OF_ONE = {
    "hardswish": ((), F.hardswish), "elu": ((), F.elu), "celu": ((1.3,), lambda x: F.celu(x, 1.3)),
    "sigmoid": ((), flambeau.sigmoid),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", OF_TWO)
def test_of_two(name, dtype, last):
    a, b = codes(2, 3, 5, 7, dtype=dtype, last=last), codes(2, 3, 5, 7, dtype=dtype, scale=0.02)
    _, _, zero = DTYPES[dtype]
    found = getattr(Q, name)(a, b, SCALE, zero - 5)
    assert found.stride() == a.stride()
    assert_close(found, OF_TWO[name](a.dequantize(), b.dequantize()))
    row = b[:, :, :1]
    assert_close(getattr(Q, name)(a, row, SCALE, zero), OF_TWO[name](a.dequantize(), row.dequantize()))
    out = flambeau._empty_affine_quantized([2, 3, 5, 7], scale=SCALE, zero_point=zero - 5, dtype=dtype, device="cpu")
    assert getattr(Q, name + "_out")(a, b, out) is out
    assert out.int_repr().equal(found.int_repr())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [0.3, -2.0, 9.0, -9.0, 3, 0])
@pytest.mark.parametrize("name", OF_NUMBER)
def test_of_a_number(name, value, dtype):
    x = codes(4, 50, dtype=dtype)
    found, numbers = getattr(Q, name)(x, value), x.dequantize()
    steps = round(value / x.q_scale()) * x.q_scale() if name.startswith("add") else value  # numbers get codes, too
    assert_close(found, OF_NUMBER[name](numbers, steps))
    assert getattr(Q, name)(x, flambeau.tensor(value, dtype=flambeau.float64)).equal(found)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OF_ONE)
def test_of_one(name, dtype):
    x = codes(3, 300, dtype=dtype)
    parameters, function = OF_ONE[name]
    assert_close(getattr(Q, name)(x, SCALE, 7, *parameters), function(x.dequantize()))


def test_functions_with_other_arguments():
    x = codes(3, 4, 6)
    numbers = x.dequantize()
    assert_close(Q.leaky_relu(x, 0.2, False, SCALE, ZERO), F.leaky_relu(numbers, 0.2))
    assert_close(Q.softmax(x, 1, 1 / 256, 0), numbers.softmax(1))
    assert_close(Q.threshold(x, 0.1, 0.5), F.threshold(numbers, 0.1, 0.5))
    assert_close(Q.relu6(x), F.relu6(numbers))
    assert_close(Q.clamp(x, -0.5, 0.5), numbers.clamp(-0.5, 0.5))
    weight = codes(4, scale=0.01)
    assert_close(Q.prelu(x, weight, SCALE, ZERO), F.prelu(numbers, weight.dequantize()))
    assert Q.dropout(x, SCALE, ZERO).equal(x)
    again = x.clone()
    assert Q.leaky_relu(again, 0.2, True, 9.0, 0) is again
    assert_close(again, F.leaky_relu(numbers, 0.2))


@pytest.mark.parametrize("relu", [False, True])
def test_joins(relu):
    a, b = codes(2, 3, 4), codes(2, 5, 4, scale=0.05)
    name = "cat_relu" if relu else "cat"
    numbers = flambeau.cat([a.dequantize(), b.dequantize()], 1)
    for parameters in ((SCALE, ZERO), (None, None)):
        assert_close(getattr(Q, name)([a, b], 1, *parameters), numbers.relu() if relu else numbers)


def test_matrix_products():
    a, b = codes(2, 5, 7), codes(2, 7, 3, scale=0.01)
    assert_close(Q.matmul(a, b, SCALE, ZERO), a.dequantize() @ b.dequantize())


# --- products ---------------------------------------------------------------------------------------------------------

def weight_of(shape, kind, axis=0):
    """A quantized weight: one scale or one per channel, with or without zero points, of random or extreme codes."""
    w = flambeau.randn(shape)
    if kind == "extreme":
        return flambeau.quantize_per_tensor(flambeau.where(w > 0.3, 1.0, -1.0), 1 / 128, 0, flambeau.qint8)
    if kind in ("tensor", "zero"):
        return flambeau.quantize_per_tensor(w, 0.02, 5 if kind == "zero" else 0, flambeau.qint8)
    n = shape[axis]
    zeros = flambeau.arange(n) % 7 - 3 if kind == "channels with zeros" else flambeau.zeros(n).long()
    return flambeau.quantize_per_channel(w, flambeau.linspace(0.005, 0.03, n), zeros, axis, flambeau.qint8)


KINDS = ("tensor", "zero", "channels", "channels with zeros", "extreme")


def requantized(sums, weight, x, bias, to, relu, dim):
    """The codes of exact sums, in float32 as the operators round."""
    shape = [1] * sums.ndim
    shape[dim] = -1
    per_tensor = weight.qscheme() is flambeau.per_tensor_affine
    scales = flambeau.tensor([weight.q_scale()]) if per_tensor else weight.q_per_channel_scales().float()
    unit = scales * flambeau.tensor(x.q_scale(), dtype=flambeau.float32)
    found = sums.float()
    if bias is not None:
        found = found + (bias * (1 / unit) if per_tensor else bias / unit).reshape(shape)
    found = found * (unit / flambeau.tensor(to[0], dtype=flambeau.float32)).reshape(shape)
    return (found.round().double() + to[1]).clamp(to[1] if relu else 0, 255)


def integers(x):
    zeros = x.q_zero_point() if x.qscheme() is flambeau.per_tensor_affine else \
        x.q_per_channel_zero_points().reshape([-1] + [1] * (x.ndim - 1))
    return x.int_repr().double() - zeros


def any_codes(*shape):
    """Codes of all 8 bits."""
    found = flambeau.randint(0, 256, shape).to(flambeau.uint8)
    return flambeau._make_per_tensor_quantized_tensor(found, 0.05, 77)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("shape", "n"), [((1, 7), 3), ((5, 64), 16), ((2, 3, 33), 40), ((40, 300), 5), ((0, 4), 2)])
def test_linear(shape, n, kind):
    x, w, bias = any_codes(*shape), weight_of((n, shape[-1]), kind), flambeau.randn(n)
    for b, relu in itertools.product((None, bias), (False, True)):
        found = getattr(Q, "linear_relu" if relu else "linear")(x, Q.linear_prepack(w, b), 1.3, 90)
        expected = requantized(integers(x) @ integers(w).t(), w, x, b, (1.3, 90), relu, -1)
        assert found.int_repr().double().equal(expected)


def test_linear_layers_with_other_functions():
    x, w, bias = codes(6, 20), weight_of((5, 20), "channels"), flambeau.randn(5)
    packed, numbers = Q.linear_prepack(w, bias), F.linear(x.dequantize(), w.dequantize(), bias)
    assert_close(Q.linear_leaky_relu(x, packed, SCALE, ZERO, 0.2), F.leaky_relu(numbers, 0.2))
    assert_close(Q.linear_tanh(x, packed, 1 / 128, 128), numbers.tanh())
    weight, again = Q.linear_unpack(packed)
    assert weight.equal(w) and again.equal(bias)
    dynamic = Q.linear_dynamic(x.dequantize(), packed, True)
    assert Q.linear_relu_dynamic(x.dequantize(), packed, True).equal(dynamic.relu())


#: in channels, out channels, kernel, stride, padding, dilation, groups, size
GEOMETRIES = [(4, 6, 3, 1, 0, 1, 1, 8), (3, 17, 7, 2, 3, 1, 1, 20), (16, 32, 1, 2, 0, 1, 1, 9),
              (16, 16, 3, 1, 1, 1, 16, 9), (16, 24, 3, 2, 1, 1, 4, 11), (8, 8, 3, 1, 2, 2, 8, 9),
              (5, 10, 5, 1, 2, 1, 5, 7), (20, 20, 5, 2, 2, 1, 20, 14), (6, 9, 3, 1, 2, 2, 3, 6),
              (32, 20, 3, 1, 1, 1, 1, 15), (16, 16, 3, 1, 0, 1, 1, 16), (48, 16, 3, 1, 1, 1, 1, 12)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_convolution(geometry, kind):
    channels, out, kernel, stride, padding, dilation, groups, size = geometry
    x, w, bias = any_codes(2, channels, size, size), weight_of((out, channels // groups, kernel, kernel), kind), \
        flambeau.randn(out)
    packed = Q.conv2d_prepack(w, bias, [stride] * 2, [padding] * 2, [dilation] * 2, groups)
    sums = F.conv2d(integers(x), integers(w), None, stride, padding, dilation, groups)
    expected = requantized(sums, w, x, bias, (2.0, 90), False, 1)
    last = x.contiguous(memory_format=flambeau.channels_last)
    for given in (x, last):
        found = Q.conv2d(given, packed, 2.0, 90)
        assert found.int_repr().double().equal(expected)
        assert found.is_contiguous(memory_format=flambeau.channels_last)
    relu = Q.conv2d_relu(x, packed, 2.0, 90)
    assert relu.int_repr().double().equal(expected.clamp(min=90))
    plus = flambeau.quantize_per_tensor(flambeau.randn(expected.shape), 0.5, 60, flambeau.quint8)
    scales = (w.q_scale() if kind in ("tensor", "zero", "extreme") else w.q_per_channel_scales().reshape(-1, 1, 1))
    numbers = sums * scales * x.q_scale() + bias.reshape(-1, 1, 1) + plus.dequantize()
    assert_close(Q.conv2d_add(x, plus, packed, 2.0, 90), numbers)
    assert_close(Q.conv2d_add_relu(x, plus, packed, 2.0, 90), numbers.relu())


@pytest.mark.parametrize("dims", [1, 3])
@pytest.mark.parametrize("geometry", GEOMETRIES[:9:2], ids=str)
def test_convolution_of_other_dimensions(geometry, dims):
    channels, out, kernel, stride, padding, dilation, groups, size = geometry
    size = min(size, 9)
    x, w = any_codes(2, channels, *[size] * dims), weight_of((out, channels // groups, *[kernel] * dims), "channels")
    packed = getattr(Q, f"conv{dims}d_prepack")(w, None, [stride] * dims, [padding] * dims, [dilation] * dims, groups)
    sums = getattr(F, f"conv{dims}d")(integers(x), integers(w), None, stride, padding, dilation, groups)
    found = getattr(Q, f"conv{dims}d")(x, packed, 2.0, 90)
    assert found.int_repr().double().equal(requantized(sums, w, x, None, (2.0, 90), False, 1))


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize(("channels", "out", "groups", "stride", "padding", "more", "dilation"), [
    (4, 6, 1, 1, 0, 0, 1), (4, 6, 2, 2, 1, 1, 1), (6, 6, 6, 2, 0, 0, 1), (3, 5, 1, 3, 2, 2, 2)])
def test_transposed_convolution(dims, channels, out, groups, stride, padding, more, dilation):
    x, w, bias = any_codes(2, channels, *[4] * dims), weight_of((channels, out // groups, *[3] * dims), "tensor"), \
        flambeau.randn(out)
    sizes = [[v] * dims for v in (stride, padding, more, dilation)]
    packed = getattr(Q, f"conv_transpose{dims}d_prepack")(w, bias, *sizes, groups)
    sums = getattr(F, f"conv_transpose{dims}d")(integers(x), integers(w), None, stride, padding, more, groups, dilation)
    found = getattr(Q, f"conv_transpose{dims}d")(x, packed, 2.0, 90)
    assert found.int_repr().double().equal(requantized(sums, w, x, bias, (2.0, 90), False, 1))
    if dims > 1:
        asked = [getattr(Q, f"conv_transpose{dims}d_{what}")(packed) for what in ("stride", "padding", "groups")]
        assert asked == [sizes[0], sizes[1], groups]


def test_dynamic_convolution_passes_through_codes_of_the_input():
    x, w, bias = flambeau.randn(1, 4, 6, 6), weight_of((6, 4, 3, 3), "tensor"), flambeau.randn(6)
    packed = Q.conv2d_prepack(w, bias, [1, 1], [0, 0], [1, 1], 1)
    given = flambeau.quantize_per_tensor_dynamic(x, flambeau.quint8, True)
    expected = Q.conv2d(given, packed, given.q_scale(), given.q_zero_point()).dequantize()
    assert Q.conv2d_dynamic(x, packed, True).equal(expected)


def test_threads_do_not_matter():
    x, packed = any_codes(3, 32, 30, 30), Q.conv2d_prepack(weight_of((40, 32, 3, 3), "tensor"), None, [1, 1], [1, 1],
                                                           [1, 1], 1)
    before, found = flambeau.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            flambeau.set_num_threads(threads)
            found.append(Q.conv2d(x, packed, 2.0, 90).int_repr())
    finally:
        flambeau.set_num_threads(before)
    assert found[0].equal(found[1]) and found[0].equal(found[2])


# --- pools and norms --------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("kernel", "stride", "padding", "dilation", "ceil"), [
    (2, None, 0, 1, False), (3, 2, 1, 1, False), (3, 1, 1, 2, True), (2, 2, 1, 1, True),
    ((3, 2), (2, 1), (1, 0), 1, False)])
def test_pools(kernel, stride, padding, dilation, ceil, last, dtype):
    x = codes(2, 5, 9, 8, dtype=dtype, last=last)
    numbers = x.dequantize()
    found = F.max_pool2d(x, kernel, stride, padding, dilation, ceil)
    assert found.dequantize().equal(F.max_pool2d(numbers, kernel, stride, padding, dilation, ceil))
    assert_close(F.avg_pool2d(x, kernel, stride, padding, ceil), F.avg_pool2d(numbers, kernel, stride, padding, ceil))
    assert_close(F.adaptive_avg_pool2d(x, (3, 1)), F.adaptive_avg_pool2d(numbers, (3, 1)))


def test_pools_of_many_channels():
    x = any_codes(2, 70, 9, 8).contiguous(memory_format=flambeau.channels_last)
    assert F.max_pool2d(x, 3, 2, 1).dequantize().equal(F.max_pool2d(x.dequantize(), 3, 2, 1))


def test_tables_and_pairs_of_all_codes():
    """Vectors and what is left after them agree."""
    for n in (1, 31, 32, 33, 256, 1000):
        x = flambeau._make_per_tensor_quantized_tensor((flambeau.arange(n) % 256).to(flambeau.uint8), 0.04, 90)
        assert_close(Q.hardswish(x, SCALE, ZERO), F.hardswish(x.dequantize()))
        assert_close(Q.add(x, x.flip(0), SCALE, ZERO), x.dequantize() + x.flip(0).dequantize())
        assert_close(Q.mul(x, x.flip(0), 0.2, ZERO), x.dequantize() * x.flip(0).dequantize())


def test_pools_of_the_package():
    x = codes(2, 4, 6, 6)
    assert flambeau.quantized_max_pool2d(input=x, kernel_size=[2, 2]).equal(F.max_pool2d(x, 2))
    assert flambeau.quantized_max_pool1d(x[0], [3], [2], [1]).equal(F.max_pool1d(x[0], 3, 2, 1))
    assert flambeau.quantized_max_pool3d(x[None], [2, 2, 2]).equal(F.max_pool3d(x[None], 2))


@pytest.mark.parametrize("dtype", DTYPES)
def test_norms(dtype):
    x = codes(2, 4, 5, 3, dtype=dtype)
    numbers, w, b = x.dequantize(), flambeau.randn(4), flambeau.randn(4)
    mean, var, to = flambeau.randn(4), flambeau.rand(4) + 0.1, (SCALE, 3)
    normal = F.batch_norm(numbers, mean, var, w, b)
    assert_close(Q.batch_norm2d(x, w, b, mean, var, 1e-5, *to), normal)
    assert_close(Q.batch_norm2d_relu(x, w, b, mean, var, 1e-5, *to), normal.relu())
    assert_close(flambeau.quantized_batch_norm(x, w, b, mean, var, 1e-5, *to), normal)
    assert_close(Q.batch_norm1d(x[..., 0], w, b, mean, var, 1e-5, *to), normal[..., 0])
    assert_close(Q.batch_norm3d(x[..., None], w, b, mean, var, 1e-5, *to), normal[..., None])
    assert_close(Q.layer_norm(x, [5, 3], None, None, 1e-5, *to), F.layer_norm(numbers, [5, 3]))
    assert_close(Q.group_norm(x, 2, w, b, 1e-5, *to), F.group_norm(numbers, 2, w, b))
    assert_close(Q.instance_norm(x, w, b, 1e-5, *to), F.instance_norm(numbers, weight=w, bias=b))


# --- embeddings and cells ---------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("word", "bits"), [("byte", 8), ("4bit", 4), ("2bit", 2)])
def test_fused_rows(word, bits):
    table, name = flambeau.randn(6, 8), f"embedding_bag_{word}"
    fused = getattr(Q, f"{name}_prepack")(table)
    assert list(fused.shape) == [6, 8 * bits // 8 + (8 if bits == 8 else 4)]
    numbers = getattr(Q, f"{name}_unpack")(fused)
    step = (table.amax(1) - table.amin(1)) / (2 ** bits - 1)
    assert ((numbers - table).abs() <= 0.51 * step.unsqueeze(1) + 4e-3).all()
    indices, offsets, weights = flambeau.tensor([0, 3, 5, 5, 1]), flambeau.tensor([0, 2, 2]), flambeau.rand(5)
    found = getattr(Q, f"{name}_rowwise_offsets")(fused, indices, offsets, per_sample_weights=weights)
    expected = F.embedding_bag(indices, numbers, offsets, mode="sum", per_sample_weights=weights)
    assert (found - expected).abs().max().item() < 1e-5


def test_packed_embeddings():
    table = flambeau.quantize_per_channel(flambeau.randn(6, 5), flambeau.rand(6) * 0.02 + 0.01, flambeau.rand(6) * 200,
                                          0, flambeau.quint8)
    packed, indices = Q.embedding_bag_prepack(table), flambeau.tensor([[0, 3], [5, 5]])
    assert Q.embedding_bag_unpack(packed).equal(table)
    assert (Q.embedding_byte(packed, indices) - table.dequantize()[indices]).abs().max().item() < 1e-5
    assert (Q.embedding_bag_byte(packed, indices) - table.dequantize()[indices].sum(1)).abs().max().item() < 1e-5


# --- mistakes ---------------------------------------------------------------------------------------------------------

def _packed_conv():
    return Q.conv2d_prepack(weight_of((6, 4, 3, 3), "tensor"), None, [1, 1], [0, 0], [1, 1], 1)


@pytest.mark.parametrize(("run", "text"), [
    (lambda x: Q.add(x, codes(1, 4, 6, 6, dtype=flambeau.qint8), 0.1, 3), "same dtype"),
    (lambda x: Q.add(x, x.dequantize(), 0.1, 3), "must be quantized"),
    (lambda x: Q.add(x, x, 0.0, 3), "positive"),
    (lambda x: Q.add(x, x, -1.0, 3), "positive"),
    (lambda x: Q.add(x, x, float("nan"), 3), "positive"),
    (lambda x: Q.add(x, x, 0.1, 256), "zero point"),
    (lambda x: Q.add(x, x[..., :2], 0.1, 3), "shape|broadcast|size"),
    (lambda x: Q.add_out(x, x, codes(2)), "expected"),
    (lambda x: Q.cat([], 0, 0.1, 3), "at least one"),
    (lambda x: Q.cat([x, codes(1, 4, 6, 6, dtype=flambeau.qint8)], 0, 0.1, 3), "dtype"),
    (lambda x: Q.linear(x, Q.linear_prepack(weight_of((3, 5), "tensor")), 0.1, 3), "5 features"),
    (lambda x: Q.linear(x, _packed_conv(), 0.1, 3), "prepack"),
    (lambda x: Q.linear(x, Q.linear_prepack_fp16(flambeau.ones(3, 6)), 0.1, 3), "halves"),
    (lambda x: Q.linear_dynamic(x.dequantize(), Q.linear_prepack_fp16(flambeau.ones(3, 6))), "codes"),
    (lambda x: Q.linear_prepack(flambeau.ones(3, 3)), "qint8"),
    (lambda x: Q.linear_prepack(weight_of((3, 5), "tensor"), flambeau.ones(4)), r"\[3\]"),
    (lambda x: Q.linear_prepack(weight_of((3, 5), "channels", axis=1)), "dimension 0"),
    (lambda x: Q.conv2d(x, Q.linear_prepack(weight_of((3, 5), "tensor")), 0.1, 3), "prepack"),
    (lambda x: Q.conv2d(x.dequantize(), _packed_conv(), 0.1, 3), "must be quantized"),
    (lambda x: Q.conv2d(codes(1, 4, 6, 6, dtype=flambeau.qint8), _packed_conv(), 0.1, 3), "quint8"),
    (lambda x: Q.conv2d(x[:, :3], _packed_conv(), 0.1, 3), "4 channels"),
    (lambda x: Q.conv2d(x[0], _packed_conv(), 0.1, 3), "4 dimensions"),
    (lambda x: Q.conv2d(x[..., :2], _packed_conv(), 0.1, 3), "no pixels"),
    (lambda x: Q.conv1d(x, _packed_conv(), 0.1, 3), "prepack"),
    (lambda x: Q.conv2d_add(x, x, _packed_conv(), 0.1, 3), "result's shape"),
    (lambda x: Q.conv2d_prepack(weight_of((6, 4, 3, 3), "tensor"), None, [0, 1], [0, 0], [1, 1], 1), "stride"),
    (lambda x: Q.conv2d_prepack(weight_of((6, 4, 3, 3), "tensor"), None, [1], [0, 0], [1, 1], 1), "stride"),
    (lambda x: Q.conv2d_prepack(weight_of((6, 4, 3, 3), "tensor"), None, [1, 1], [0, 0], [1, 1], 4), "groups"),
    (lambda x: Q.conv2d_prepack(weight_of((6, 4, 3), "tensor"), None, [1, 1], [0, 0], [1, 1], 1), "4 dimensions"),
    (lambda x: Q.conv2d_prepack(x, None, [1, 1], [0, 0], [1, 1], 1), "qint8"),
    (lambda x: Q.batch_norm2d(x, *[flambeau.ones(3)] * 4, 1e-5, 0.1, 3), r"\[4\]"),
    (lambda x: Q.batch_norm3d(x, *[flambeau.ones(4)] * 4, 1e-5, 0.1, 3), "5 dimensions"),
    (lambda x: Q.matmul(x, x[0], 0.1, 3), "number of dimensions"),
    (lambda x: Q.dropout(x, 0.1, 3, 0.5, True), "training"),
    (lambda x: Q.embedding_bag_prepack(x), "matrix"),
    (lambda x: Q.embedding_byte(Q.embedding_bag_prepack(_table()), flambeau.tensor([9])), "0 to 5"),
    (lambda x: Q.embedding_byte(Q.embedding_bag_prepack(_table()), flambeau.tensor([-1])), "0 to 5"),
    (lambda x: Q.embedding_byte(Q.embedding_bag_prepack(_table()), flambeau.tensor([1.0])), "int64"),
    (lambda x: Q.embedding_byte(x, flambeau.tensor([1])), "prepack"),
    (lambda x: Q.embedding_bag_byte(Q.embedding_bag_prepack(_table()), flambeau.tensor([1])), "offsets"),
    (lambda x: Q.embedding_bag_byte_unpack(flambeau.ones(3)), "uint8"),
    (lambda x: setattr(flambeau.backends.quantized, "engine", "cray"), "expected one of"),
])
def test_mistakes(run, text):
    with pytest.raises(RuntimeError, match=text):
        run(codes(1, 4, 6, 6))


def _table():
    return flambeau.quantize_per_channel(flambeau.randn(6, 5), flambeau.ones(6), flambeau.zeros(6), 0, flambeau.quint8)


def hostile_conv(**changes):
    """_quantized_conv itself with arguments that do not belong together."""
    w = flambeau.ones(6, 4, 3, 3, dtype=flambeau.int8)
    given = {"input": flambeau.ones(1, 4, 6, 6, dtype=flambeau.uint8), "zero_point": 0, "scale": 1.0,
             "weight": flambeau.ops.OPS["_quantized_pack"](w, flambeau.zeros(1, dtype=flambeau.int32), 1, True),
             "out_channels": 6, "kernel_size": [3, 3], "scales": flambeau.ones(1), "bias": None, "stride": [1, 1],
             "padding": [0, 0], "dilation": [1, 1], "groups": 1, "output_padding": None, "output_scale": 1.0,
             "output_zero_point": 0, "relu": False}
    return flambeau.ops.OPS["_quantized_conv"](**given | changes)


@pytest.mark.parametrize("changes", [
    {"out_channels": 17}, {"out_channels": 0}, {"groups": 4}, {"groups": 0}, {"kernel_size": [3, 4]},
    {"kernel_size": [3]}, {"kernel_size": [0, 3]}, {"stride": [0, 1]}, {"padding": [-1, 0]}, {"dilation": [0, 2]},
    {"kernel_size": [9, 9]}, {"scales": flambeau.ones(3)}, {"bias": flambeau.ones(1)},
    {"bias": flambeau.ones(6).double()},
    {"weight": flambeau.ones(5, dtype=flambeau.int8)}, {"weight": flambeau.ones(6, 4, 3, 3)},
    {"input": flambeau.ones(1, 4, 6, 6)}, {"input": flambeau.ones(4, 6, 6, dtype=flambeau.uint8)},
    {"added": flambeau.ones(1, 6, 4, 3, dtype=flambeau.uint8)}, {"added": flambeau.ones(1, 6, 4, 4)},
    {"padding": [2**62, 0]}, {"stride": [1, 1], "padding": [0, 2**40]},
], ids=str)
def test_hostile_arguments_are_refused(changes):
    assert hostile_conv().shape == (1, 6, 4, 4)
    with pytest.raises((RuntimeError, NotImplementedError, MemoryError)):
        hostile_conv(**changes)


def test_quantized_tensors_are_compared_as_numbers():
    x = codes(3, 4)
    flambeau.testing.assert_close(x, x.clone())
    with pytest.raises(AssertionError, match="differ in"):
        flambeau.testing.assert_close(x, Q.add_scalar(x, 1.0))
    with pytest.raises(AssertionError, match=r"dtype|qscheme"):
        flambeau.testing.assert_close(x, x.dequantize())
    with pytest.raises(AssertionError, match="qscheme"):
        flambeau.testing.assert_close(x, x.dequantize(), check_dtype=False)


def test_limits_of_codes():
    for dtype, (low, high, _) in DTYPES.items():
        assert (flambeau.iinfo(dtype).min, flambeau.iinfo(dtype).max) == (low, high)
