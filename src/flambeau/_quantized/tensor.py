"""What a quantized tensor is: a wrapper around a tensor of integer codes, and the scale that gives them their values.

A code q stands for scale * (q - zero_point). Views of a quantized tensor are views of its codes.
"""

from .. import _C
from .._C import Tensor
from .._tensor.wrapped import Wrapped
from ..ops.kinds import OPS
from .schemes import per_channel_affine, per_channel_affine_float_qparams, per_tensor_affine

#: dtype -> (dtype of the codes, least code, largest code)
CODES = {_C.quint8: (_C.uint8, 0, 255), _C.qint8: (_C.int8, -128, 127), _C.qint32: (_C.int32, -2**31, 2**31 - 1)}
OF_CODES = {codes: dtype for dtype, (codes, _, _) in CODES.items()}


class PerTensor:
    """One scale and one zero point for all elements."""

    __slots__ = ("scale", "zero_point")
    scheme = per_tensor_affine

    def __init__(self, scale, zero_point):
        self.scale, self.zero_point = float(scale), int(zero_point)

    def same(self, other):
        """Whether equal codes mean equal numbers."""
        return isinstance(other, PerTensor) and (self.scale, self.zero_point) == (other.scale, other.zero_point)

    def aligned(self, ndim, dtype):
        """(scale, zero point) as tensors that broadcast against the codes."""
        return OPS["full"]((), self.scale, dtype=dtype), OPS["full"]((), float(self.zero_point), dtype=dtype)


class PerChannel:
    """A scale and a zero point for each index of dimension `axis`. Zero points are integers, or (float_qparams) numbers
    that are subtracted before rounding."""

    __slots__ = ("axis", "scales", "zero_points")

    def __init__(self, scales, zero_points, axis):
        self.scales, self.zero_points, self.axis = scales, zero_points, axis

    @property
    def scheme(self):
        """The scheme: whether zero points are integers."""
        return per_channel_affine_float_qparams if self.zero_points.is_floating_point() else per_channel_affine

    def same(self, other):
        """Whether equal codes mean equal numbers."""
        return isinstance(other, PerChannel) and self.axis == other.axis and self.scheme is other.scheme \
            and self.scales.equal(other.scales) and self.zero_points.equal(other.zero_points)

    def aligned(self, ndim, dtype):
        """(scales, zero points) as tensors that broadcast against the codes."""
        shape = [1] * ndim
        shape[self.axis] = -1
        return self.scales.to(dtype).reshape(shape), self.zero_points.to(dtype).reshape(shape)

    def on(self, axis):
        """The same for codes whose channels lie in another dimension."""
        return PerChannel(self.scales, self.zero_points, axis)


def is_quantized(x):
    """Whether it is a quantized tensor."""
    return isinstance(x, QuantizedTensor)


def wrap(codes, quantizer, dtype=None):
    """The quantized tensor of these codes."""
    dtype = dtype or OF_CODES[codes.dtype]
    x = Tensor._make_wrapper_subclass(QuantizedTensor, codes.shape, dtype=dtype, device=codes.device)
    x._codes, x._quantizer = codes, quantizer
    return x


def has_channels_last(codes):
    """Whether images lie in memory with their channels last."""
    return codes.ndim == 4 and codes.is_contiguous(memory_format=_C.channels_last) and not codes.is_contiguous()


def values_of(x):
    """The numbers that the codes stand for, in float32."""
    quantizer = x._quantizer
    if isinstance(quantizer, PerTensor) and x.dtype is not _C.qint32:
        return OPS["_code_values"](x._codes, quantizer.scale, quantizer.zero_point)
    scale, zero = quantizer.aligned(x.ndim, _C.float32)
    return (x._codes.to(_C.float32) - zero) * scale


class QuantizedTensor(Wrapped):
    """A tensor of codes; `flambeau.quantize_per_tensor` and `quantize_per_channel` make them."""

    _contents = ("_codes", "_quantizer")
