"""Normalisation: batches, layers, groups, root mean squares."""

import math

from ... import _C
from ..._tensor.creation import tensor
from .._emitter import Unavailable
from ._table import translates
from .reductions import is_half, variance


def _ones(g, value, like, number, count):
    """The value, or as many of this number."""
    if value is not None:
        return value
    return g.const(tensor([number] * count, dtype=like.dtype))


@translates("native_batch_norm")
def native_batch_norm(g, input, weight, bias, running_mean, running_var, training, momentum, eps):
    """With running statistics BatchNormalization; a convolution before it takes it in where the weights are known.
    The other results, which only derivatives need, are not written."""
    channels = input.shape[1]
    if not isinstance(channels, int):
        raise Unavailable("batch_norm of an open number of channels is not written")
    if training:
        return [_by_batch(g, input, weight, bias, eps), None, None]
    weight, bias = _ones(g, weight, running_mean, 1.0, channels), _ones(g, bias, running_mean, 0.0, channels)
    taken = _into_convolution(g, input, weight, bias, running_mean, running_var, eps)
    if taken is not None:
        return [taken, None, None]
    return [g.op("BatchNormalization", input, weight, bias, running_mean, running_var, epsilon_f=eps), None, None]


def _into_convolution(g, input, weight, bias, mean, var, eps):
    """scale = weight / sqrt(var + eps): the filters times the scale, and (bias - mean) scale + shift as their bias."""
    node = input.node
    constants = (weight, bias, mean, var)
    if not g.fold or node is None or node.kind != "Conv" or g.last_users > 1 or any(v.data is None for v in constants):
        return None
    filters, before = node.inputs[1], node.inputs[2] if len(node.inputs) > 2 else None
    if filters.data is None or (before is not None and before.data is None):
        return None
    scale = weight.data / (var.data + eps).sqrt()
    shift = bias.data - mean.data * scale
    if before is not None:
        shift = shift + before.data * scale
    scaled = filters.data * scale.reshape(-1, *[1] * (filters.rank - 1))
    return g.op("Conv", node.inputs[0], g.const(scaled.to(filters.dtype), filters.name),
                g.const(shift.to(filters.dtype), bias.name), **node.attributes)


def _by_batch(g, x, weight, bias, eps):
    """The statistics of the batch itself."""
    wide = g.shaped(g.cast(x, _C.float32), x.shape) if is_half(x.dtype) else x
    dims = [d for d in range(x.rank) if d != 1]
    mean, var = variance(g, wide, dims, 0, True)
    found = g.op("Div", g.op("Sub", wide, mean), g.op("Sqrt", g.op("Add", var, g.scalar(eps, wide.dtype))))
    return g.cast(_affine(g, found, weight, bias, x.rank), x.dtype)


def _affine(g, x, weight, bias, rank):
    """x weight + bias, one number of each for a channel."""
    shape = [-1, *[1] * (rank - 2)]
    if weight is not None:
        x = g.op("Mul", x, g.op("Reshape", g.cast(weight, x.dtype), shape))
    return x if bias is None else g.op("Add", x, g.op("Reshape", g.cast(bias, x.dtype), shape))


@translates("layer_norm")
def layer_norm(g, input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    if any(not isinstance(n, int) for n in normalized_shape):
        raise Unavailable("layer_norm over an open size is not written")
    if weight is None:
        ones = tensor([1.0] * math.prod(normalized_shape), dtype=input.dtype)
        weight = g.const(ones.reshape(tuple(normalized_shape)))
    return g.op("LayerNormalization", input, weight, bias, axis=-len(normalized_shape), epsilon_f=eps)


@translates("rms_norm")
def rms_norm(g, input, normalized_shape, weight=None, eps=None):
    dims = list(range(-len(normalized_shape), 0))
    x = g.shaped(g.cast(input, _C.float32), input.shape) if is_half(input.dtype) else input
    eps = eps if eps is not None else _EPS[x.dtype]
    if g.opset >= 23 and weight is not None:
        return g.op("RMSNormalization", input, weight, axis=dims[0], epsilon_f=eps)
    square = g.op("ReduceMean", g.op("Mul", x, x), dims, keepdims=1)
    found = g.op("Div", x, g.op("Sqrt", g.op("Add", square, g.scalar(eps, x.dtype))))
    if weight is not None:
        found = g.op("Mul", found, g.cast(weight, found.dtype))
    return g.cast(found, input.dtype)


_EPS = {_C.float32: 2.0 ** -23, _C.float64: 2.0 ** -52, _C.float16: 2.0 ** -23, _C.bfloat16: 2.0 ** -23}


@translates("group_norm")
def group_norm(g, input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    """Each group as one channel of InstanceNormalization, then the numbers of each channel."""
    if g.opset >= 21 and weight is not None and bias is not None:
        return g.op("GroupNormalization", input, weight, bias, num_groups=num_groups, epsilon_f=eps)
    groups = g.op("Reshape", input, [0, num_groups, -1])
    one = g.const(tensor([1.0] * num_groups, dtype=input.dtype))
    zero = g.const(tensor([0.0] * num_groups, dtype=input.dtype))
    found = g.op("InstanceNormalization", groups, one, zero, epsilon_f=eps)
    known = [n if isinstance(n, int) else -1 for n in input.shape]
    if known.count(-1) > 1:
        found = g.op("Reshape", found, g.full_shape(input))
    else:
        found = g.op("Reshape", found, known)
    return _affine(g, found, weight, bias, input.rank)


@translates("instance_norm")
def instance_norm(g, input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True,
                  momentum=0.1, eps=1e-5):
    """InstanceNormalization; with running statistics these are steps of their own, and do not come here."""
    channels = input.shape[1]
    if not isinstance(channels, int):
        raise Unavailable("instance_norm of an open number of channels is not written")
    weight, bias = _ones(g, weight, input, 1.0, channels), _ones(g, bias, input, 0.0, channels)
    return g.op("InstanceNormalization", input, weight, bias, epsilon_f=eps)
