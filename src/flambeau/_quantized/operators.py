"""`flambeau.ops.quantized`: which function each of PyTorch's operators of static quantization is."""

from .._C import Tensor
from .._tensor.overriding import handle_torch_function, overriding
from ..ops.namespaces import Namespace, Packet
from . import arithmetic, cells, embeddings, functions, norms, products
from .packed import PackedLinear, pack_conv, pack_linear


class Operator:
    """One operator: PyTorch's name for it, and the function that computes all its forms."""

    namespace, tags = "quantized", ()

    def __init__(self, name, function):
        self.name, self.qualified, self._function = name, f"quantized::{name}", function
        self.schema = function.__doc__

    def op(self, *args, **kwargs):
        """One call."""
        if any(not isinstance(x, Tensor) for x in overriding(args, kwargs, "__torch_function__")):  # a tracer's
            return handle_torch_function(SPACE[self.name], args, kwargs)
        return self._function(*args, **kwargs)

    def __repr__(self):
        return f"quantized.{self.name}"


# --- linear -----------------------------------------------------------------------------------------------------------

def _linear(name, tail=None):
    def compute(X, W_prepack, Y_scale_i, Y_zero_point_i, negative_slope=0.01):
        return products.linear(X, W_prepack, Y_scale_i, Y_zero_point_i, name, tail, negative_slope)
    compute.__doc__ = "A linear layer of codes" + (f" and {tail}." if tail else ".")
    return compute


def _linear_dynamic(name, relu, halves):
    def compute(X, W_prepack, reduce_range=False):
        if not isinstance(W_prepack, PackedLinear) or W_prepack.halves is not halves:
            raise RuntimeError(f"{name}: expected a packed weight of {'halves' if halves else 'codes'}")
        found = W_prepack.dynamic(X.detach(), reduce_range)
        return found.relu_() if relu else found
    compute.__doc__ = "A linear layer of numbers with quantized weights" + (" and relu." if relu else ".")
    return compute


def linear_prepack_fp16(W, B=None):
    """Packs a weight as halves."""
    return pack_linear(W.half(), B)


# --- convolutions -----------------------------------------------------------------------------------------------------

def _conv(dims, name, relu=False, transpose=False):
    def compute(qx, packed_weight, *geometry_and_result, **named):
        scale, zero_point = (geometry_and_result[-2:] if geometry_and_result else (None, None))
        scale, zero_point = named.get("output_scale", scale), named.get("output_zero_point", zero_point)
        return products.conv(dims, name, qx, packed_weight, scale, zero_point, relu, transpose)
    compute.__doc__ = "A convolution of codes" + (" and relu." if relu else ".")
    return compute


def _conv_add(relu):
    def compute(qx, qaccum, packed_weight, output_scale, output_zero_point):
        return products.conv(2, "conv2d_add" + "_relu" * relu, qx, packed_weight, output_scale, output_zero_point, relu,
                             plus=qaccum)
    compute.__doc__ = "A convolution of codes plus another tensor" + (", and relu." if relu else ".")
    return compute


def _conv_dynamic(dims, name, transpose):
    def compute(qx, packed_weight, reduce_range=False):
        return products.conv_dynamic(dims, name, qx, packed_weight, reduce_range, transpose)
    compute.__doc__ = "A convolution of numbers with quantized weights."
    return compute


def _conv_prepack(dims, name, transpose):
    if transpose:
        def pack(weight, bias, stride, padding, output_padding, dilation, groups):
            return pack_conv(dims, name, weight, bias, stride, padding, dilation, groups, output_padding)
    else:
        def pack(weight, bias, stride, padding, dilation, groups):
            return pack_conv(dims, name, weight, bias, stride, padding, dilation, groups)
    pack.__doc__ = "Packs the weight of a convolution with its bias and geometry."
    return pack


def _asks(name):
    def ask(packed_weights):
        return getattr(packed_weights, name)()
    ask.__doc__ = f"{name} of a packed weight."
    return ask


def _convolutions():
    found = {"conv_prepack": _conv_prepack(2, "conv_prepack", False), "conv_unpack": _asks("unpack"),
             "conv2d_add": _conv_add(False), "conv2d_add_relu": _conv_add(True)}
    for dims in (1, 2, 3):
        for name, transpose in ((f"conv{dims}d", False), (f"conv_transpose{dims}d", True)):
            found[name] = _conv(dims, name, transpose=transpose)
            found[f"{name}_dynamic"] = _conv_dynamic(dims, f"{name}_dynamic", transpose)
            found[f"{name}_prepack"] = _conv_prepack(dims, f"{name}_prepack", transpose)
            found[f"{name}_unpack"] = _asks("unpack")
            if dims > 1:
                for what in ("stride", "padding", "output_padding", "dilation", "groups", "transpose"):
                    found[f"{name}_{what}"] = _asks(what)
        found[f"conv{dims}d_relu"] = _conv(dims, f"conv{dims}d_relu", relu=True)
    return found


# --- the table --------------------------------------------------------------------------------------------------------

def _pairs():
    found = {}
    for kind in ("add", "mul"):
        for relu in (False, True):
            name, scalar = f"{kind}_relu" if relu else kind, f"{kind}_scalar" + "_relu" * relu
            found[name], found[f"{name}_out"] = arithmetic.of_two(kind, relu)
            found[scalar], found[f"{scalar}_out"] = arithmetic.of_number(kind, relu)
    for relu in (False, True):
        name = "cat_relu" if relu else "cat"
        found[name], found[f"{name}_out"] = arithmetic.joined(relu)
    return found


def _embeddings():
    found = {"embedding_bag_prepack": embeddings.embedding_bag_prepack,
             "embedding_bag_unpack": embeddings.embedding_bag_unpack}
    for bits in (8, 4, 2):
        word = "byte" if bits == 8 else f"{bits}bit"
        name = f"embedding_bag_{word}"
        found[f"{name}_prepack"], found[f"{name}_prepack_with_rowwise_min_max"] = embeddings.prepack(bits)
        found[f"{name}_unpack"] = embeddings.unpack(bits)
        found[f"{name}_rowwise_offsets"] = embeddings.bag(f"{name}_rowwise_offsets", bits)
        if bits > 2:
            found[name], found[f"embedding_{word}"] = embeddings.bag(name), embeddings.embedding(f"embedding_{word}")
    return found


FUNCTIONS = {
    "linear": _linear("linear"), "linear_relu": _linear("linear_relu", "relu"),
    "linear_leaky_relu": _linear("linear_leaky_relu", "leaky_relu"), "linear_tanh": _linear("linear_tanh", "tanh"),
    "linear_prepack": pack_linear, "linear_unpack": _asks("unpack"), "linear_prepack_fp16": linear_prepack_fp16,
    "linear_unpack_fp16": _asks("unpack"), "linear_dynamic": _linear_dynamic("linear_dynamic", False, False),
    "linear_relu_dynamic": _linear_dynamic("linear_relu_dynamic", True, False),
    "linear_dynamic_fp16": _linear_dynamic("linear_dynamic_fp16", False, True),
    "linear_relu_dynamic_fp16": _linear_dynamic("linear_relu_dynamic_fp16", True, True),
    **_convolutions(), **_pairs(), **_embeddings(), "matmul": products.matmul,
    **{name: getattr(functions, name) for name in ("hardswish", "elu", "celu", "leaky_relu", "prelu", "sigmoid",
                                                   "softmax", "relu6", "clamp", "threshold", "dropout")},
    "max_pool1d": functions.max_pool(1), "max_pool2d": functions.max_pool(2),
    **{form + "_relu" * relu: norms.batch_norm(form, relu) for form in norms.RANKS for relu in (False, True)},
    "layer_norm": norms.layer_norm, "group_norm": norms.group_norm, "instance_norm": norms.instance_norm,
    "quantized_lstm_cell_dynamic": cells.quantized_lstm_cell_dynamic,
    "quantized_gru_cell_dynamic": cells.quantized_gru_cell_dynamic,
    "quantized_rnn_relu_cell_dynamic": cells.rnn_cell_dynamic("relu"),
    "quantized_rnn_tanh_cell_dynamic": cells.rnn_cell_dynamic("tanh"),
}

def _packet(name, function):
    made = Packet("quantized", name)
    made._add(Operator(name, function), "default")
    return made


SPACE = {name: _packet(name, function) for name, function in FUNCTIONS.items()}


def space(name):
    """The namespace with all of them."""
    found = Namespace(name)
    for name, packet in SPACE.items():
        found._register(name, packet)
    return found


# --- functions of the package -----------------------------------------------------------------------------------------

def quantized_batch_norm(input, weight, bias, mean, var, eps, output_scale, output_zero_point):
    """Batch normalization of codes with given means and variances, in another scale."""
    return SPACE["batch_norm"](input, weight, bias, mean, var, eps, output_scale, output_zero_point)


def _pool(dims):
    compute = functions.max_pool(dims)

    def pool(input, kernel_size, stride=(), padding=(0,) * dims, dilation=(1,) * dims, ceil_mode=False):
        return compute(input, kernel_size, stride, padding, dilation, ceil_mode)
    pool.__doc__ = compute.__doc__
    return pool


quantized_max_pool1d, quantized_max_pool2d, quantized_max_pool3d = map(_pool, (1, 2, 3))
