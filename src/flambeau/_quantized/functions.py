"""Functions of single numbers, whose results get codes of a given scale or keep the input's."""

from ..ops.kinds import OPS
from .pointwise import _clamp, _relu6
from .results import ALL, activation, coded, decoded, mapped, result_quantizer
from .tensor import wrap


def _to(name, x, scale, zero_point):
    activation(name, x, ALL)
    return result_quantizer(name, scale, zero_point, x.dtype)


def hardswish(input, output_scale, output_zero_point):
    """hardswish."""
    return mapped(OPS["hardswish"], input, _to("hardswish", input, output_scale, output_zero_point))


def _elu(x, alpha, scale, input_scale):
    below = OPS["expm1"](x * input_scale) * (alpha * scale)
    return OPS["where"](x > 0, x * scale, below)


def elu(self, output_scale, output_zero_point, alpha=1, scale=1, input_scale=1):
    """elu with the factors of all three parts."""
    return mapped(_elu, self, _to("elu", self, output_scale, output_zero_point), alpha, scale, input_scale)


def celu(self, output_scale, output_zero_point, alpha=1):
    """celu."""
    if alpha == 0:
        raise ZeroDivisionError("celu: alpha must not be 0")
    return elu(self, output_scale, output_zero_point, alpha, 1, 1 / alpha)


def leaky_relu(qx, negative_slope, inplace, output_scale, output_zero_point):
    """leaky_relu; inplace: qx keeps its scale and gets the result."""
    to = _to("leaky_relu", qx, output_scale, output_zero_point)
    if inplace:
        return qx.copy_(mapped(OPS["leaky_relu"], qx, qx._quantizer, negative_slope))
    return mapped(OPS["leaky_relu"], qx, to, negative_slope)


def prelu(qx, weight, output_scale, output_zero_point):
    """prelu, whose weight is quantized too."""
    to = _to("prelu", qx, output_scale, output_zero_point)
    activation("prelu", weight, ALL)
    return coded(OPS["prelu"](decoded(qx), decoded(weight)), to, qx.dtype)


def sigmoid(qx, output_scale, output_zero_point):
    """sigmoid."""
    return mapped(OPS["sigmoid"], qx, _to("sigmoid", qx, output_scale, output_zero_point))


def softmax(qx, dim, output_scale, output_zero_point):
    """softmax along a dimension."""
    to = _to("softmax", qx, output_scale, output_zero_point)
    return coded(OPS["softmax"](decoded(qx), dim), to, qx.dtype)


def relu6(qx, inplace=False):
    """relu6 of the codes."""
    activation("relu6", qx, ALL)
    return _relu6(qx, inplace)


def clamp(qx, min=None, max=None):
    """clamp of the codes."""
    activation("clamp", qx, ALL)
    return _clamp(qx, min, max)


def threshold(qx, threshold, value):
    """x where it is above the threshold, else the value."""
    activation("threshold", qx, ALL)
    return mapped(OPS["threshold"], qx, qx._quantizer, threshold, value)


def dropout(self, output_scale, output_zero_point, p=0.5, training=False):
    """The tensor itself: there is no training on codes."""
    activation("dropout", self, ALL)
    if training:
        raise RuntimeError("dropout: quantized tensors are for inference; set training=False (model.eval())")
    return wrap(self._codes.clone(), self._quantizer, self.dtype)


def max_pool(dims):
    """Pooling of the codes in `dims` dimensions."""
    def compute(qx, kernel_size, stride=(), padding=(0,) * dims, dilation=(1,) * dims, ceil_mode=False):
        activation(f"max_pool{dims}d", qx, ALL)
        return OPS[f"max_pool{dims}d"](qx, kernel_size, stride or None, padding, dilation, ceil_mode)
    compute.__doc__ = f"The largest code in each window of {dims} dimensions."
    return compute
