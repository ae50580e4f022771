"""Linear layers, convolutions and matrix products of quantized tensors: integers are multiplied, and their sums become
codes of the result's scale."""

from .. import _C
from .._shown import shown
from ..ops.kinds import OPS
from .packed import PackedConv, PackedLinear
from .quantize import quantize_per_tensor_dynamic
from .results import BYTES, activation, coded, result_quantizer
from .tensor import values_of, wrap


def _packed(name, packed, kind, dims=None, transpose=None):
    if not isinstance(packed, kind) or (dims is not None and packed.dims != dims) or \
            (transpose is not None and packed.transpose_ != transpose):
        raise RuntimeError(f"{name}: expected the packed weight that the operator's own prepack function makes, got "
                           f"{shown(packed)}")
    return packed


def _centred(codes, zero):
    return codes.double() - (zero if isinstance(zero, int) else zero.double())


def _weight(packed, axis):
    shape = [1] * packed.weight_.ndim
    shape[axis] = -1
    return _centred(packed.weight_._codes, packed.zeros.reshape(shape))


def _scaled(sums, packed, x, channel_dim):
    """Sums of products (exact, in float64) as float32 numbers in units of the result: (numbers, scales)."""
    shape = [1] * sums.ndim
    shape[channel_dim] = -1
    return sums.float(), (packed.scales * x.scale).reshape(shape), shape


def _finished(sums, packed, quantizer, to, channel_dim, relu=False, plus=None):
    found, scales, shape = _scaled(sums, packed, quantizer, channel_dim)
    if packed.bias_ is not None:
        found = found + packed.bias_.reshape(shape) / scales
    found = found * (scales / to.scale)
    if plus is not None:
        found = found + plus
    codes = found.round().double() + to.zero_point
    return codes.clamp(to.zero_point if relu else 0, 255).to(_C.uint8)


# --- linear -----------------------------------------------------------------------------------------------------------

def linear_sums(name, x, packed):
    """(sums of products, quantizer of the input) of a linear layer."""
    _packed(name, packed, PackedLinear)
    quantizer = activation(name, x)
    if packed.halves:
        raise RuntimeError(f"{name}: the packed weight is one of halves; it goes with linear_dynamic_fp16")
    if x.ndim < 1 or x.shape[-1] != packed.weight_.shape[1]:
        raise RuntimeError(f"{name}: input {list(x.shape)} does not end in the {packed.weight_.shape[1]} features that "
                           f"weight {list(packed.weight_.shape)} expects")
    return _centred(x._codes, quantizer.zero_point) @ _weight(packed, 0).t(), quantizer


def linear(X, W_prepack, Y_scale_i, Y_zero_point_i, name="linear", tail=None, negative_slope=0.01):
    """A linear layer of codes, with relu, leaky_relu or tanh after it."""
    to = result_quantizer(name, Y_scale_i, Y_zero_point_i)
    sums, quantizer = linear_sums(name, X, W_prepack)
    if tail in (None, "relu"):
        return wrap(_finished(sums, W_prepack, quantizer, to, -1, tail == "relu"), to)
    found, scales, _ = _scaled(sums, W_prepack, quantizer, -1)
    found = found * scales
    if W_prepack.bias_ is not None:
        found = found + W_prepack.bias_
    return coded(OPS["leaky_relu"](found, negative_slope) if tail == "leaky_relu" else found.tanh(), to, X.dtype)


# --- convolution ------------------------------------------------------------------------------------------------------

def check_conv(name, x, packed, dims, transpose):
    """Checks an input against a packed weight."""
    _packed(name, packed, PackedConv, dims, transpose)
    if x.ndim != dims + 2 or x.shape[1] != packed.in_channels:
        raise RuntimeError(f"{name}: expected an input of {dims + 2} dimensions with {packed.in_channels} channels, "
                           f"got shape {list(x.shape)}")


def conv(dims, name, x, packed, scale, zero_point, relu=False, transpose=False, plus=None):
    """A convolution of codes; `plus` is a quantized tensor that is added before the result gets its codes."""
    quantizer, to = activation(name, x), result_quantizer(name, scale, zero_point)
    check_conv(name, x, packed, dims, transpose)
    added = () if plus is None else (plus._codes, activation(name, plus).zero_point, plus._quantizer.scale)
    codes = OPS["_quantized_conv"](x._codes, quantizer.zero_point, quantizer.scale, *packed.geometry, to.scale,
                                   to.zero_point, relu, *added)
    return wrap(codes, to)


def conv_dynamic(dims, name, x, packed, reduce_range=False, transpose=False):
    """A convolution of numbers, which get codes for this call; the result has passed through codes of their scale."""
    codes = quantize_per_tensor_dynamic(x, _C.quint8, reduce_range)
    return values_of(conv(dims, name, codes, packed, codes.q_scale(), codes.q_zero_point(), transpose=transpose))


# --- matrix products --------------------------------------------------------------------------------------------------

def matmul(qa, qb, scale, zero_point):
    """The matrix products of two quantized tensors of one dtype."""
    of_a, of_b = activation("matmul", qa, BYTES), activation("matmul", qb, BYTES)
    if qa.dtype is not qb.dtype or qa.ndim != qb.ndim or qa.ndim < 2:
        raise RuntimeError(f"matmul: both must have one dtype and the same number of dimensions, at least 2; got "
                           f"{qa.dtype} {list(qa.shape)} and {qb.dtype} {list(qb.shape)}")
    to = result_quantizer("matmul", scale, zero_point, qa.dtype)
    sums = OPS["matmul"](_centred(qa._codes, of_a.zero_point), _centred(qb._codes, of_b.zero_point))
    return coded((sums * (of_a.scale * of_b.scale)).float(), to, qa.dtype)
