"""Checks of what operators of static quantization get, and the codes of what they compute."""

from .. import _C
from .._shown import shown
from ..ops.kinds import OPS
from .tensor import CODES, PerTensor, is_quantized, wrap

BYTES = (_C.quint8, _C.qint8)
ALL = tuple(CODES)


def activation(name, x, dtypes=(_C.quint8,)):
    """The quantizer of an input, which must have one scale and one of these dtypes."""
    if not is_quantized(x) or x.dtype not in dtypes or not isinstance(x._quantizer, PerTensor):
        got = f"{x.dtype} {x.qscheme()}" if is_quantized(x) else shown(x)
        raise RuntimeError(f"{name}: the input must be quantized with one scale and dtype "
                           f"{' or '.join(map(str, dtypes))}, got {got}")
    return x._quantizer


def result_quantizer(name, scale, zero_point, dtype=_C.quint8):
    """A checked quantizer for a result."""
    quantizer = PerTensor(scale, zero_point)
    _, low, high = CODES[dtype]
    if not 0 < quantizer.scale < float("inf"):
        raise RuntimeError(f"{name}: the result's scale must be a positive number, got {scale}")
    if not low <= quantizer.zero_point <= high:
        raise RuntimeError(f"{name}: the result's zero point must be from {low} to {high}, got {zero_point}")
    return quantizer


def coded(values, quantizer, dtype, relu=False):
    """The quantized tensor of float32 numbers: what rounds is the number in units of the scale, without the zero
    point. relu: no code is below that of 0."""
    kind, low, high = CODES[dtype]
    zero = quantizer.zero_point
    scale, none = quantizer.aligned(values.ndim, _C.float32)[0], OPS["full"]((), 0.0, dtype=_C.float32)
    found = OPS["_quantized_codes"](values, scale, none, (0 if relu else low - zero), high - zero)
    if kind is _C.int32:
        found = found.double()
    return wrap((found + zero).clamp(low, high).to(kind), quantizer, dtype)
