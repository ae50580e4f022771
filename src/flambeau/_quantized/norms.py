"""Normalization of quantized tensors: in numbers, whose results get codes of a given scale."""

from .. import _C
from ..ops.kinds import OPS
from .results import ALL, activation, coded, result_quantizer
from .tensor import values_of

#: how many dimensions the input of each form may have
RANKS = {"batch_norm": (2, 3, 4, 5), "batch_norm1d": (2, 3), "batch_norm2d": (4,), "batch_norm3d": (5,)}


def batch_norm(form, relu=False):
    """Batch normalization with given means and variances, in one of its forms."""
    name = form + ("_relu" if relu else "")

    def compute(qx, weight, bias, mean, var, eps, output_scale, output_zero_point):
        activation(name, qx, ALL)
        if qx.ndim not in RANKS[form]:
            raise RuntimeError(f"{name}: expected an input of {' or '.join(map(str, RANKS[form]))} dimensions, got "
                               f"shape {list(qx.shape)}")
        to = result_quantizer(name, output_scale, output_zero_point, qx.dtype)
        scale, shift = _line(name, qx.shape[1], weight, bias, mean, var, eps)
        shape = [-1] + [1] * (qx.ndim - 2)
        return coded(values_of(qx) * scale.reshape(shape) + shift.reshape(shape), to, qx.dtype, relu)

    compute.__doc__ = "Batch normalization with given means and variances" + (", and relu." if relu else ".")
    return compute


def _line(name, channels, weight, bias, mean, var, eps):
    """(factor, summand) of each channel."""
    for what, t in (("weight", weight), ("bias", bias), ("mean", mean), ("var", var)):
        if t is not None and (t.ndim != 1 or len(t) != channels or t.dtype is not _C.float32):
            raise RuntimeError(f"{name}: {what} must be float32 of shape [{channels}], got {t.dtype} {list(t.shape)}")
    scale = (var.detach() + eps).rsqrt()
    if weight is not None:
        scale = scale * weight.detach()
    shift = -mean.detach() * scale
    return scale, shift if bias is None else bias.detach() + shift


def layer_norm(input, normalized_shape, weight, bias, eps, output_scale, output_zero_point):
    """Layer normalization."""
    activation("layer_norm", input, ALL)
    to = result_quantizer("layer_norm", output_scale, output_zero_point, input.dtype)
    found = OPS["layer_norm"](values_of(input), normalized_shape, _plain(weight), _plain(bias), eps)
    return coded(found, to, input.dtype)


def _plain(t):
    return None if t is None else t.detach()


def group_norm(input, num_groups, weight, bias, eps, output_scale, output_zero_point, name="group_norm"):
    """Group normalization."""
    activation(name, input, ALL)
    to = result_quantizer(name, output_scale, output_zero_point, input.dtype)
    return coded(OPS["group_norm"](values_of(input), num_groups, _plain(weight), _plain(bias), eps), to, input.dtype)


def instance_norm(input, weight, bias, eps, output_scale, output_zero_point):
    """Normalization of each channel of each sample."""
    if input.ndim < 2:
        raise RuntimeError(f"instance_norm: expected an input of at least 2 dimensions, got shape {list(input.shape)}")
    return group_norm(input, input.shape[1], weight, bias, eps, output_scale, output_zero_point, "instance_norm")
