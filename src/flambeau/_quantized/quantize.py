"""From numbers to codes and back: the functions that make quantized tensors."""

from .. import _C
from .._C import Tensor
from .._shown import shown
from ..ops.kinds import OPS
from .tensor import CODES, OF_CODES, PerChannel, PerTensor, is_quantized, wrap


def _codes_dtype(name, dtype):
    if dtype not in CODES:
        raise RuntimeError(f"{name}: expected dtype quint8, qint8 or qint32, got {shown(dtype)}")
    return CODES[dtype]


def _check_numbers(name, x):
    if is_quantized(x):
        raise RuntimeError(f"{name}: the tensor is quantized already; dequantize() it first")
    if x.dtype is not _C.float32:
        raise RuntimeError(f"{name}: expected a tensor of float32, got {x.dtype}; convert it with .float()")
    return x.detach()


def codes_of(x, quantizer, dtype):
    """The codes of float32 numbers: round(x / scale + zero_point), within the dtype's range."""
    kind, low, high = CODES[dtype]
    scale, zero = quantizer.aligned(x.ndim, _C.float32)
    found = OPS["_quantized_codes"](x, scale, zero, low, high)
    return found.double().clamp(low, high).to(kind) if kind is _C.int32 else found.to(kind)


def _check_zero_point(name, low, high, zero_point):
    if not low <= zero_point <= high:
        raise RuntimeError(f"{name}: zero_point {zero_point} is no code of the dtype, whose codes go from {low} to "
                           f"{high}")


def quantize_per_tensor(input, scale, zero_point, dtype):
    """A quantized tensor with one scale: code = round(x / scale + zero_point), within the range of `dtype` (quint8,
    qint8 or qint32). Of a list of tensors, a tuple, with a scale and a zero point for each.

    >>> import flambeau
    >>> q = flambeau.quantize_per_tensor(flambeau.tensor([-1.0, 0.26, 2.0]), 0.1, 10, flambeau.quint8)
    >>> q.int_repr()
    tensor([ 0, 13, 30], dtype=torch.uint8)
    >>> q.dequantize()
    tensor([-1.0000,  0.3000,  2.0000])
    """
    if not isinstance(input, Tensor):
        return tuple(quantize_per_tensor(x, float(s), int(z), dtype)
                     for x, s, z in zip(input, scale, zero_point, strict=True))
    _, low, high = _codes_dtype("quantize_per_tensor", dtype)
    quantizer = PerTensor(scale, zero_point)
    _check_zero_point("quantize_per_tensor", low, high, quantizer.zero_point)
    x = _check_numbers("quantize_per_tensor", input)
    return wrap(codes_of(x, quantizer, dtype), quantizer, dtype)


def quantize_per_tensor_dynamic(input, dtype, reduce_range):
    """A quantized tensor with one scale, chosen so that the least and the largest number have codes; reduce_range: in
    half the range.

    >>> import flambeau
    >>> flambeau.quantize_per_tensor_dynamic(flambeau.tensor([0.0, 2.55]), flambeau.quint8, False).int_repr()
    tensor([  0, 255], dtype=torch.uint8)
    """
    _, low, high = _codes_dtype("quantize_per_tensor_dynamic", dtype)
    if high > 255:
        raise RuntimeError("quantize_per_tensor_dynamic: expected dtype quint8 or qint8, got qint32")
    x = _check_numbers("quantize_per_tensor_dynamic", input)
    if not x.numel():
        return quantize_per_tensor(x, 1.0, 0, dtype)
    scale, zero_point = OPS["_choose_affine"](x, reduce_range)
    return quantize_per_tensor(x, scale.item(), zero_point.item() + (low // 2 if reduce_range else low), dtype)


def quantize_per_channel(input, scales, zero_points, axis, dtype):
    """A quantized tensor with a scale and a zero point for each index of dimension `axis`. Zero points of floating
    point stay numbers: code = round(x / scale + zero_point).

    >>> import flambeau
    >>> rows, steps = flambeau.full((2, 2), 6.0), flambeau.tensor([0.25, 1.5])
    >>> flambeau.quantize_per_channel(rows, steps, flambeau.tensor([7, 4]), 0, flambeau.qint8).int_repr()
    tensor([[31, 31],
            [ 8,  8]], dtype=torch.int8)
    """
    _, low, high = _codes_dtype("quantize_per_channel", dtype)
    x = _check_numbers("quantize_per_channel", input)
    quantizer = channels("quantize_per_channel", x, scales, zero_points, axis)
    if not quantizer.zero_points.is_floating_point():
        for zero_point in quantizer.zero_points.tolist():
            _check_zero_point("quantize_per_channel", low, high, zero_point)
    return wrap(codes_of(x, quantizer, dtype), quantizer, dtype)


def channels(name, x, scales, zero_points, axis):
    """A checked PerChannel for a tensor of the shape of x."""
    if not -x.ndim <= axis < x.ndim:
        raise IndexError(f"{name}: axis {axis} is none of the {x.ndim} dimensions")
    axis %= x.ndim
    for what, t in (("scales", scales), ("zero points", zero_points)):
        if t.ndim != 1 or len(t) != x.shape[axis]:
            raise RuntimeError(f"{name}: dimension {axis} has {x.shape[axis]} channels, but the {what} have shape "
                               f"{list(t.shape)}")
    if zero_points.is_floating_point():
        return PerChannel(scales.detach().to(_C.float32), zero_points.detach().to(_C.float32), axis)
    return PerChannel(scales.detach().to(_C.float64), zero_points.detach().to(_C.int64), axis)


def _make_per_tensor_quantized_tensor(input, scale, zero_point):
    """The quantized tensor that has these codes (uint8, int8 or int32)."""
    return wrap(_checked_codes(input).clone(), PerTensor(scale, zero_point))


def _make_per_channel_quantized_tensor(input, scale, zero_point, axis):
    """The quantized tensor that has these codes, a scale for each index of dimension `axis`."""
    codes = _checked_codes(input)
    return wrap(codes.clone(), channels("_make_per_channel_quantized_tensor", codes, scale, zero_point, axis))


def _checked_codes(codes):
    if codes.dtype not in OF_CODES:
        raise RuntimeError(f"quantized tensor: codes are uint8, int8 or int32, got {codes.dtype}")
    return codes.detach()


def _empty_affine_quantized(size, *, scale=1, zero_point=0, dtype=_C.quint8, device=None):
    """A quantized tensor whose codes are whatever was in memory."""
    kind, low, high = _codes_dtype("_empty_affine_quantized", dtype)
    _check_zero_point("_empty_affine_quantized", low, high, zero_point)
    return wrap(OPS["empty"](size, dtype=kind, device=device), PerTensor(scale, zero_point), dtype)


def _choose_qparams_per_tensor(self, reduce_range=False):
    """(scale, zero point) with which all numbers of the tensor have codes from 0 to 255, or to 127."""
    scale, zero_point = OPS["_choose_affine"](self.detach(), reduce_range)
    return scale.item(), zero_point.item()


def dequantize(tensor):
    """The numbers of a quantized tensor, or of every tensor of a list, in float32; others are converted to it.

    >>> import flambeau
    >>> flambeau.dequantize(flambeau.quantize_per_tensor(flambeau.tensor([1.0]), 0.25, 3, flambeau.qint8))
    tensor([1.])
    """
    return tensor.dequantize() if isinstance(tensor, Tensor) else tuple(t.dequantize() for t in tensor)


# --- functions that ask a tensor --------------------------------------------------------------------------------------

def _asks(name):
    def ask(input):
        return getattr(input, name)()

    ask.__name__ = ask.__qualname__ = name
    ask.__doc__ = f"x.{name}()"
    return ask


int_repr, q_scale, q_zero_point = _asks("int_repr"), _asks("q_scale"), _asks("q_zero_point")
q_per_channel_scales, q_per_channel_zero_points = _asks("q_per_channel_scales"), _asks("q_per_channel_zero_points")
q_per_channel_axis = _asks("q_per_channel_axis")
