"""Functions on quantized tensors: those whose results keep the input's scale, and those that are given one."""

import warnings

import flambeau
from flambeau import nn

from ...._quantized import functions, products
from ...._quantized.packed import pack_conv, pack_linear
from ...._shown import shown


def _check(name, input):
    if not input.is_quantized:
        raise ValueError(f"{name}: the input must be quantized, got {input.dtype}")


def avg_pool2d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
               divisor_override=None):
    """Means over windows; scale and zero point are the input's."""
    _check("avg_pool2d", input)
    return nn.functional.avg_pool2d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
               divisor_override=None):
    """Means over windows; scale and zero point are the input's."""
    _check("avg_pool3d", input)
    return nn.functional.avg_pool3d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def adaptive_avg_pool2d(input, output_size):
    """Means over as many windows as asked for; scale and zero point are the input's."""
    _check("adaptive_avg_pool2d", input)
    return nn.functional.adaptive_avg_pool2d(input, output_size)


def adaptive_avg_pool3d(input, output_size):
    """Means over as many windows as asked for; scale and zero point are the input's."""
    _check("adaptive_avg_pool3d", input)
    return nn.functional.adaptive_avg_pool3d(input, output_size)


def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest code in each window."""
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest code in each window."""
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _max_pool(dims, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices):
    if return_indices:
        raise NotImplementedError(f"max_pool{dims}d: return_indices is not supported for quantized tensors")
    _check(f"max_pool{dims}d", input)
    return getattr(nn.functional, f"max_pool{dims}d")(input, kernel_size, stride, padding, dilation, ceil_mode)


# --- products ---------------------------------------------------------------------------------------------------------

def linear(input, weight, bias=None, scale=None, zero_point=None):
    """A linear layer of codes; without scale and zero point the result has the input's.

    >>> import flambeau
    >>> x = flambeau.quantize_per_tensor(flambeau.ones(1, 2), 0.5, 0, flambeau.quint8)
    >>> w = flambeau.quantize_per_tensor(flambeau.ones(3, 2), 0.5, 0, flambeau.qint8)
    >>> flambeau.ao.nn.quantized.functional.linear(x, w).int_repr()
    tensor([[4, 4, 4]], dtype=torch.uint8)
    """
    _check("linear", input)
    scale = input.q_scale() if scale is None else scale
    zero_point = input.q_zero_point() if zero_point is None else zero_point
    return products.linear(input, pack_linear(weight, bias), scale, zero_point)


def _conv(dims, input, weight, bias, stride, padding, dilation, groups, padding_mode, scale, zero_point, dtype):
    name = f"conv{dims}d"
    if padding_mode != "zeros":
        raise NotImplementedError(f"{name}: padding_mode must be 'zeros', got {shown(padding_mode)}")
    if input.dtype is not flambeau.quint8 or dtype is not flambeau.quint8:
        raise NotImplementedError(f"{name}: input and result must be quint8, got {input.dtype} and {dtype}")
    if weight.dtype is not flambeau.qint8:
        raise NotImplementedError(f"{name}: the weight must be qint8, got {weight.dtype}")
    sizes = [(v,) * dims if isinstance(v, int) else tuple(v) for v in (stride, padding, dilation)]
    return products.conv(dims, name, input, pack_conv(dims, name, weight, bias, *sizes, groups), scale, zero_point)


def conv1d(input, weight, bias, stride=1, padding=0, dilation=1, groups=1, padding_mode="zeros", scale=1.0,
           zero_point=0, dtype=flambeau.quint8):
    """A convolution of codes [n, channels, length]."""
    return _conv(1, input, weight, bias, stride, padding, dilation, groups, padding_mode, scale, zero_point, dtype)


def conv2d(input, weight, bias, stride=1, padding=0, dilation=1, groups=1, padding_mode="zeros", scale=1.0,
           zero_point=0, dtype=flambeau.quint8):
    """A convolution of codes [n, channels, height, width]."""
    return _conv(2, input, weight, bias, stride, padding, dilation, groups, padding_mode, scale, zero_point, dtype)


def conv3d(input, weight, bias, stride=1, padding=0, dilation=1, groups=1, padding_mode="zeros", scale=1.0,
           zero_point=0, dtype=flambeau.quint8):
    """A convolution of codes [n, channels, depth, height, width]."""
    return _conv(3, input, weight, bias, stride, padding, dilation, groups, padding_mode, scale, zero_point, dtype)


# --- activations ------------------------------------------------------------------------------------------------------

def leaky_relu(input, negative_slope=0.01, inplace=False, scale=None, zero_point=None):
    """leaky_relu of codes, in a given scale or the input's."""
    _check("leaky_relu", input)
    if (scale is None) != (zero_point is None):
        raise ValueError("leaky_relu: give both scale and zero_point, or neither")
    if scale is None:
        scale, zero_point = input.q_scale(), input.q_zero_point()
    elif inplace:
        raise ValueError("leaky_relu: inplace=True keeps the input's scale; leave out scale and zero_point")
    return functions.leaky_relu(input, negative_slope, inplace, scale, zero_point)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """hardtanh of codes; scale and zero point are the input's."""
    _check("hardtanh", input)
    return nn.functional.hardtanh(input, min_val, max_val, inplace)


def hardswish(input, scale, zero_point):
    """hardswish of codes."""
    _check("hardswish", input)
    return functions.hardswish(input, scale, zero_point)


def hardsigmoid(input, inplace=False):
    """hardsigmoid of codes, with the scale that fits its range."""
    _check("hardsigmoid", input)
    return nn.functional.hardsigmoid(input, inplace)


def threshold(input, threshold, value):
    """The input where it is above the threshold, else the value."""
    _check("threshold", input)
    return functions.threshold(input, threshold, value)


def elu(input, scale, zero_point, alpha=1.0):
    """elu of codes."""
    _check("elu", input)
    return functions.elu(input, scale, zero_point, alpha)


def celu(input, scale, zero_point, alpha=1.0):
    """celu of codes."""
    _check("celu", input)
    return functions.celu(input, scale, zero_point, alpha)


def clamp(input, min_, max_):
    """clamp of codes."""
    _check("clamp", input)
    return functions.clamp(input, min_, max_)


# --- pictures ---------------------------------------------------------------------------------------------------------

def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """Pictures of another size; scale and zero point are the input's."""
    _check("interpolate", input)
    return nn.functional.interpolate(input, size, scale_factor, mode, align_corners)


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """The older name of interpolate."""
    warnings.warn("nn.quantized.functional.upsample is an older name of interpolate", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_bilinear(input, size=None, scale_factor=None):
    """interpolate(mode='bilinear', align_corners=True), under an older name."""
    warnings.warn("nn.quantized.functional.upsample_bilinear is an older name of interpolate", stacklevel=2)
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def upsample_nearest(input, size=None, scale_factor=None):
    """interpolate(mode='nearest'), under an older name."""
    warnings.warn("nn.quantized.functional.upsample_nearest is an older name of interpolate", stacklevel=2)
    return interpolate(input, size, scale_factor, mode="nearest")
