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
    """Codes without their zero point, in float64, where sums of their products are exact."""
    return codes.double() - zero


# --- linear -----------------------------------------------------------------------------------------------------------

def linear(X, W_prepack, Y_scale_i, Y_zero_point_i, name="linear", tail=None, negative_slope=0.01):
    """A linear layer of codes, with relu, leaky_relu or tanh after it."""
    to, packed = result_quantizer(name, Y_scale_i, Y_zero_point_i), _packed(name, W_prepack, PackedLinear)
    quantizer = activation(name, X)
    if packed.halves:
        raise RuntimeError(f"{name}: the packed weight is one of halves; it goes with linear_dynamic_fp16")
    if X.ndim < 1 or X.shape[-1] != packed.weight_.shape[1]:
        raise RuntimeError(f"{name}: input {list(X.shape)} does not end in the {packed.weight_.shape[1]} features that "
                           f"weight {list(packed.weight_.shape)} expects")
    if tail in TAILS:
        return coded(TAILS[tail](_numbers(X, quantizer, packed), negative_slope), to, X.dtype)
    codes = X._codes if X.ndim == 2 else X._codes.reshape(-1, X.shape[-1])
    found = OPS["_quantized_conv"](codes, quantizer.zero_point, quantizer.scale, *packed.geometry, to.scale,
                                   to.zero_point, tail == "relu")
    return wrap(found if X.ndim == 2 else found.reshape(*X.shape[:-1], -1), to, X.dtype)


TAILS = {"leaky_relu": lambda x, slope: OPS["leaky_relu"](x, slope), "tanh": lambda x, _: x.tanh()}


def _numbers(x, quantizer, packed):
    """The layer's results before they get codes."""
    sums = _centred(x._codes, quantizer.zero_point) @ _centred(packed.codes, packed.zeros.double().reshape(-1, 1)).t()
    found = sums.float() * (packed.scales * quantizer.scale)
    return found if packed.bias_ is None else found + packed.bias_


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
