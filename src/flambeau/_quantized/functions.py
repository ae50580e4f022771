"""Functions of single numbers, whose results get codes of a given scale or keep the input's."""

from ..ops.kinds import OPS
from .pointwise import _clamp, _relu6
from .results import ALL, BYTES, activation, coded, result_quantizer
from .tensor import values_of, wrap


def _coded(name, x, found, scale, zero_point):
    return coded(found, result_quantizer(name, scale, zero_point, x.dtype), x.dtype)


def hardswish(input, output_scale, output_zero_point):
    """hardswish."""
    activation("hardswish", input, ALL)
    return _coded("hardswish", input, OPS["hardswish"](values_of(input)), output_scale, output_zero_point)


def elu(self, output_scale, output_zero_point, alpha=1, scale=1, input_scale=1):
    """elu with the factors of all three parts."""
    activation("elu", self, ALL)
    x = values_of(self)
    below = (OPS["expm1"](x * input_scale)) * (alpha * scale)
    return _coded("elu", self, OPS["where"](x > 0, x * scale, below), output_scale, output_zero_point)


def celu(self, output_scale, output_zero_point, alpha=1):
    """celu."""
    if alpha == 0:
        raise ZeroDivisionError("celu: alpha must not be 0")
    return elu(self, output_scale, output_zero_point, alpha, 1, 1 / alpha)


def leaky_relu(qx, negative_slope, inplace, output_scale, output_zero_point):
    """leaky_relu; inplace: qx keeps its scale and gets the result."""
    activation("leaky_relu", qx, ALL)
    found = OPS["leaky_relu"](values_of(qx), negative_slope)
    if inplace:
        return qx.copy_(coded(found, qx._quantizer, qx.dtype))
    return _coded("leaky_relu", qx, found, output_scale, output_zero_point)


def prelu(qx, weight, output_scale, output_zero_point):
    """prelu, whose weight is quantized too."""
    activation("prelu", qx, ALL), activation("prelu", weight, ALL)
    return _coded("prelu", qx, OPS["prelu"](values_of(qx), values_of(weight)), output_scale, output_zero_point)


def sigmoid(qx, output_scale, output_zero_point):
    """sigmoid."""
    activation("sigmoid", qx, ALL)
    return _coded("sigmoid", qx, OPS["sigmoid"](values_of(qx)), output_scale, output_zero_point)


def softmax(qx, dim, output_scale, output_zero_point):
    """softmax along a dimension."""
    activation("softmax", qx, ALL)
    return _coded("softmax", qx, OPS["softmax"](values_of(qx), dim), output_scale, output_zero_point)


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
    return coded(OPS["threshold"](values_of(qx), threshold, value), qx._quantizer, qx.dtype)


def dropout(self, output_scale, output_zero_point, p=0.5, training=False):
    """The tensor itself: there is no training on codes."""
    activation("dropout", self, ALL)
    if training:
        raise RuntimeError("dropout: quantized tensors are for inference; set training=False (model.eval())")
    return wrap(self._codes.clone(), self._quantizer, self.dtype)


def max_pool(dims):
    """Pooling of the codes in `dims` dimensions."""
    def compute(qx, kernel_size, stride=(), padding=(0,) * dims, dilation=(1,) * dims, ceil_mode=False):
        activation(f"max_pool{dims}d", qx, BYTES)
        return OPS[f"max_pool{dims}d"](qx, kernel_size, stride or None, padding, dilation, ceil_mode)
    compute.__doc__ = f"The largest code in each window of {dims} dimensions."
    return compute
