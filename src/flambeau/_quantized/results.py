"""Checks of what operators of static quantization get, the numbers they compute with, and the codes of their results.

What a function makes of 8-bit codes is a table of 256 entries, which is kept for the next call.
"""

from functools import lru_cache

from .. import _C
from .._shown import shown
from ..ops.kinds import OPS
from .quantize import codes_of
from .tensor import CODES, PerTensor, is_quantized, values_of, wrap

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


def decoded(x):
    """The numbers that codes stand for, rounded once: code * scale + what code 0 stands for."""
    return _decoded(x._codes, x._quantizer)


def _decoded(codes, quantizer):
    scale, zero = quantizer.aligned(codes.ndim, _C.float32)
    return (codes.double() * scale.double() + (scale * -zero).double()).float()


def coded(values, quantizer, dtype, relu=False):
    """The quantized tensor of float32 numbers: what rounds is the number in units of the scale, without the zero
    point. relu: no code is below that of 0."""
    return wrap(_coded(values, quantizer, dtype, relu), quantizer, dtype)


def _coded(values, quantizer, dtype, relu=False):
    kind, low, high = CODES[dtype]
    zero = quantizer.zero_point
    scale, none = quantizer.aligned(values.ndim, _C.float32)[0], OPS["full"]((), 0.0, dtype=_C.float32)
    found = OPS["_quantized_codes"](values, scale, none, (0 if relu else low - zero), high - zero)
    if kind is _C.int32:
        found = found.double()
    return (found + zero).clamp(low, high).to(kind)


def mapped(function, x, to, *parameters):
    """function(numbers, *parameters) of each number of a quantized tensor, as codes of the quantizer `to`.

    `function` is a module's own, so that its tables are found again.
    """
    if x.dtype not in BYTES:
        return coded(function(decoded(x), *parameters), to, x.dtype)
    quantizer = x._quantizer
    table = _table(function, parameters, x.dtype, quantizer.scale, quantizer.zero_point, to.scale, to.zero_point)
    return wrap(OPS["_code_table"](x._codes, table), to, x.dtype)


@lru_cache(maxsize=512)
def _table(function, parameters, dtype, scale, zero_point, to_scale, to_zero_point):
    return _coded(function(_decoded(_every_code(dtype), PerTensor(scale, zero_point)), *parameters),
                  PerTensor(to_scale, to_zero_point), dtype)


def _every_code(dtype):
    kind, low, high = CODES[dtype]
    return OPS["arange"](low, high + 1).to(kind)


def requantized(x, to):
    """The codes of a quantized tensor in another scale, as if its numbers were quantized anew."""
    if x.dtype not in BYTES:
        return codes_of(values_of(x), to, x.dtype)
    quantizer = x._quantizer
    return OPS["_code_table"](x._codes, _anew(x.dtype, quantizer.scale, quantizer.zero_point, to.scale, to.zero_point))


@lru_cache(maxsize=512)
def _anew(dtype, scale, zero_point, to_scale, to_zero_point):
    numbers = values_of(wrap(_every_code(dtype), PerTensor(scale, zero_point), dtype))
    return codes_of(numbers, PerTensor(to_scale, to_zero_point), dtype)
