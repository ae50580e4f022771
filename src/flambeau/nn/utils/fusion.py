"""Folding a batch normalization in evaluation mode into the weights of the layer before it."""

import copy

from ... import ones_like, zeros_like
from ..parameter import Parameter


def _folded(weight, bias, mean, var, eps, scale, shift, channel):
    """w' = w s,  b' = (b - mean) s + shift,  s = scale / sqrt(var + eps), along dimension `channel` of the weight."""
    bias = zeros_like(mean) if bias is None else bias
    scale = ones_like(mean) if scale is None else scale
    shift = zeros_like(mean) if shift is None else shift
    factor = scale * (var + eps).rsqrt()
    shape = [1] * weight.dim()
    shape[channel] = -1
    new_weight = (weight * factor.reshape(shape)).to(weight.dtype)
    new_bias = ((bias - mean) * factor + shift).to(bias.dtype)
    return Parameter(new_weight.detach(), weight.requires_grad), Parameter(new_bias.detach(), bias.requires_grad)


def fuse_conv_bn_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, transpose=False):
    """(weight, bias) of one convolution that does convolution, then batch norm."""
    return _folded(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 1 if transpose else 0)


def fuse_linear_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b):
    """(weight, bias) of one linear layer that does linear, then batch norm."""
    return _folded(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 0)


def _fuse(layer, bn, channel):
    if layer.training or bn.training:
        raise AssertionError("fuse_conv_bn_eval: the statistics still change; call eval() first")
    fused = copy.deepcopy(layer)
    fused.weight, fused.bias = _folded(
        layer.weight, layer.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, channel
    )
    return fused


def fuse_conv_bn_eval(conv, bn, transpose=False):
    """One convolution layer equal to `bn(conv(x))`, both in evaluation mode."""
    return _fuse(conv, bn, 1 if transpose else 0)


def fuse_linear_bn_eval(linear, bn):
    """One linear layer equal to `bn(linear(x))`, both in evaluation mode."""
    return _fuse(linear, bn, 0)
