"""Fake quantization: numbers as they would be after a way through their codes, with gradients, for training."""

from .. import _C
from .._C import Tensor
from ..ops.kinds import OPS


def _check_range(name, quant_min, quant_max):
    if quant_min > quant_max:
        raise RuntimeError(f"{name}: quant_min {quant_min} is above quant_max {quant_max}")


def _number(value, dtype):
    if isinstance(value, Tensor):
        return value.detach().to(dtype)
    return OPS["full"]((), value, dtype=dtype)


def fake_quantize_per_tensor_affine(input, scale, zero_point, quant_min, quant_max):
    """(clamp(round(input / scale) + zero_point, quant_min, quant_max) - zero_point) * scale.

    The gradient is that of the identity where the code is in the range, and 0 elsewhere.

    >>> import flambeau
    >>> flambeau.fake_quantize_per_tensor_affine(flambeau.tensor([0.26, 9.0]), 0.1, 0, 0, 20)
    tensor([0.3000, 2.0000])
    """
    name = "fake_quantize_per_tensor_affine"
    _check_range(name, quant_min, quant_max)
    if not isinstance(zero_point, Tensor) and not quant_min <= zero_point <= quant_max:
        raise RuntimeError(f"{name}: zero_point {zero_point} is not between {quant_min} and {quant_max}")
    kind = _compute(input)
    return OPS["_fake_quantize"](input, _number(scale, kind), _number(zero_point, kind), quant_min, quant_max)


def fake_quantize_per_channel_affine(input, scale, zero_point, axis, quant_min, quant_max):
    """As `fake_quantize_per_tensor_affine`, with a scale and a zero point for each index of dimension `axis`.

    >>> import flambeau
    >>> x = flambeau.tensor([[0.26], [0.26]])
    >>> scale, zero_point = flambeau.tensor([0.1, 0.2]), flambeau.zeros(2, dtype=flambeau.int32)
    >>> flambeau.fake_quantize_per_channel_affine(x, scale, zero_point, 0, 0, 255)
    tensor([[0.3000],
            [0.2000]])
    """
    name = "fake_quantize_per_channel_affine"
    _check_range(name, quant_min, quant_max)
    if zero_point.dtype not in (_C.int32, _C.float32, _C.float16):
        raise RuntimeError(f"{name}: zero points must be int32, float32 or float16, got {zero_point.dtype}")
    scale, zero_point = _channels(name, input, axis, scale.detach(), zero_point.detach())
    return OPS["_fake_quantize"](input, scale, zero_point, quant_min, quant_max)


def _compute(x):
    return x.dtype if x.dtype is _C.float64 else _C.float32


def _channels(name, x, axis, *vectors):
    if not -x.ndim <= axis < x.ndim:
        raise IndexError(f"{name}: axis {axis} is none of the {x.ndim} dimensions")
    shape = [1] * x.ndim
    shape[axis] = -1
    for t in vectors:
        if t.ndim != 1 or len(t) != x.shape[axis]:
            raise RuntimeError(f"{name}: dimension {axis} has {x.shape[axis]} channels, got scales or zero points of "
                               f"shape {list(t.shape)}")
    return [t.to(_compute(x)).reshape(shape) for t in vectors]


def _rounded(zero_point, quant_min, quant_max):
    """The zero point as a code, through which the gradient goes as if it were the number itself."""
    code = zero_point.detach().clamp(quant_min, quant_max).round()
    return zero_point + (code - zero_point.detach())


def _fake_quantize_learnable_per_tensor_affine(self, scale, zero_point, quant_min, quant_max, grad_factor=1.0):
    """Fake quantization whose scale and zero point (tensors of one element) are learned."""
    _check_range("_fake_quantize_learnable_per_tensor_affine", quant_min, quant_max)
    zero_point = _rounded(zero_point, quant_min, quant_max)
    shape = scale.shape if self.ndim else ()
    return OPS["_fake_quantize"](self, scale.reshape(shape), zero_point.reshape(shape), quant_min, quant_max,
                                 grad_factor)


def _fake_quantize_learnable_per_channel_affine(self, scale, zero_point, axis, quant_min, quant_max, grad_factor=1.0):
    """Fake quantization whose scales and zero points, one for each index of `axis`, are learned."""
    name = "_fake_quantize_learnable_per_channel_affine"
    _check_range(name, quant_min, quant_max)
    scale, zero_point = _channels(name, self, axis, scale, _rounded(zero_point, quant_min, quant_max))
    return OPS["_fake_quantize"](self, scale, zero_point, quant_min, quant_max, grad_factor)
