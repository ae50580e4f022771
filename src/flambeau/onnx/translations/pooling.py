"""Pooling: maxima and means of windows, and the adaptive forms."""

import math

from ... import _C
from ..._tensor.creation import tensor
from .._emitter import Unavailable
from ._table import entry, translates
from .convolution import each


def _images(g, x, nd):
    """x with the two dimensions in front that ONNX wants."""
    missing = nd + 2 - x.rank
    return g.shaped(g.unsqueeze(x, *range(missing)), (1,) * missing + tuple(x.shape)) if missing else x


def _back(g, made, x, nd):
    missing = nd + 2 - x.rank
    return g.squeeze(made, *range(missing)) if missing else made


def _max(g, self, kernel_size, stride, padding, dilation, ceil_mode, dims, places):
    kernel = each(kernel_size, dims)
    stride, padding, dilation = (each(v, dims) for v in (stride or kernel, padding, dilation))
    x = _images(g, self, dims)
    return x, g.op("MaxPool", x, kernel_shape=kernel, strides=stride, pads=padding * 2, dilations=dilation,
                   ceil_mode=ceil_mode, outputs=2 if places else 1)


@translates("max_pool_values")
def max_pool_values(g, self, kernel_size, stride, padding, dilation, ceil_mode, dims):
    return _back(g, _max(g, self, kernel_size, stride, padding, dilation, ceil_mode, dims, False)[1], self, dims)


@translates("max_pool")
def max_pool(g, self, kernel_size, stride, padding, dilation, ceil_mode, dims):
    """The places of ONNX count through all planes, ours through each."""
    x, (values, places) = _max(g, self, kernel_size, stride, padding, dilation, ceil_mode, dims, True)
    places.dtype = _C.int64
    plane = g.times(*(g.size(x, d) for d in range(2, x.rank)))
    places = g.op("Mod", places, g.of(plane, _C.int64))
    return [_back(g, values, self, dims), _back(g, places, self, dims)]


def _avg(nd):
    def translation(g, input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
                    divisor_override=None):
        kernel = each(kernel_size, nd)
        strides, padding = each(stride or kernel, nd), each(padding, nd)
        x = _images(g, input, nd)
        if divisor_override is not None:  # the mean, times what it was divided by, over what it is to be divided by
            if any(padding):
                x = g.op("Pad", x, [0, 0, *padding, 0, 0, *padding])
                padding = [0] * nd
            if ceil_mode:
                raise Unavailable("avg_pool with divisor_override and ceil_mode is not written; leave one out")
        made = g.op("AveragePool", x, kernel_shape=kernel, strides=strides, pads=padding * 2, ceil_mode=ceil_mode,
                    count_include_pad=int(count_include_pad))
        if divisor_override is not None:
            made = g.op("Mul", made, g.scalar(math.prod(kernel) / divisor_override, input.dtype))
        return _back(g, made, input, nd)
    return translation


for _nd in (1, 2, 3):
    entry(f"avg_pool{_nd}d", _avg(_nd))


def _windows(size, parts):
    """[first, last) of each adaptive window along one dimension."""
    return [(k * size // parts, -((-(k + 1) * size) // parts)) for k in range(parts)]


@translates("adaptive_avg_pool")
def adaptive_avg_pool(g, self, output_size, dims=2):
    """The mean of all; windows of one length; else one product with a matrix of shares for each dimension."""
    x = _images(g, self, dims)
    sides, parts = x.shape[2:], list(output_size)
    if all(p == 1 for p in parts):
        return _back(g, g.op("GlobalAveragePool", x), self, dims)
    if not all(isinstance(n, int) for n in (*sides, *parts)):
        raise Unavailable("adaptive pooling of open sides is written for output_size=1 alone")
    if all(n % p == 0 for n, p in zip(sides, parts, strict=True)):
        lengths = [n // p for n, p in zip(sides, parts, strict=True)]
        return _back(g, g.op("AveragePool", x, kernel_shape=lengths, strides=lengths), self, dims)
    made = x
    for d, (n, p) in enumerate(zip(sides, parts, strict=True)):
        rows = [[1 / (b - a) if a <= k < b else 0.0 for a, b in _windows(n, p)] for k in range(n)]
        order = [k for k in range(2 + dims) if k != 2 + d] + [2 + d]
        turned = g.op("Transpose", made, perm=order) if order != sorted(order) else made
        turned = g.op("MatMul", turned, g.const(tensor(rows, dtype=x.dtype)))
        back = [order.index(k) for k in range(2 + dims)]
        made = g.op("Transpose", turned, perm=back) if back != sorted(back) else turned
    return _back(g, made, self, dims)


@translates("adaptive_max_pool")
def adaptive_max_pool(g, self, output_size, dims):
    x = _images(g, self, dims)
    sides, parts = x.shape[2:], list(output_size)
    if not all(isinstance(n, int) for n in (*sides, *parts)):
        raise Unavailable("adaptive pooling of open sides is written for means with output_size=1 alone")
    if any(n % p for n, p in zip(sides, parts, strict=True)):
        return [_back(g, v, self, dims) for v in _uneven(g, x, sides, parts)]
    lengths = [n // p for n, p in zip(sides, parts, strict=True)]
    return max_pool(g, self, lengths, lengths, 0, 1, False, dims)


def _uneven(g, x, sides, parts):
    """Maxima of windows of different lengths: each is gathered as if it had the longest one's, its last place
    repeated."""
    places = tensor(0, dtype=_C.int64)
    for k, (n, p) in enumerate(zip(sides, parts, strict=True)):
        windows = _windows(n, p)
        longest = max(b - a for a, b in windows)
        rows = tensor([[min(a + j, b - 1) for j in range(longest)] for a, b in windows], dtype=_C.int64)
        shape = [1] * (2 * len(sides))
        shape[k], shape[len(sides) + k] = p, longest
        places = places * n + rows.reshape(shape)
    places = places.reshape((*parts, -1))  # [parts ..., places in the plane]
    flat = g.op("Reshape", x, [0, 0, -1])
    windows = g.op("Gather", flat, g.const(places), axis=2)
    values = g.op("ReduceMax", windows, [-1], keepdims=0)
    which = g.op("ArgMax", windows, axis=2 + len(sides), keepdims=1)
    table = g.op("Expand", g.const(places), g.op("Shape", windows))
    found = g.op("GatherElements", table, which, axis=2 + len(sides))
    return [values, g.squeeze(found, 2 + len(sides))]


@translates("max_unpool1d", "max_unpool2d", "max_unpool3d")
def max_unpool(g, input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Zeros in which each value stands at its place in the plane."""
    dims = int(g.kind[-2])
    x, places = _images(g, input, dims), _images(g, indices, dims)
    sides = g.shape[-dims:]
    if not all(isinstance(n, int) for n in sides):
        raise Unavailable("max_unpool to open sides is not written")
    front = [g.size(x, 0), g.size(x, 1)]
    zeros = g.expand(g.scalar(0, x.dtype), [*front, math.prod(sides)])
    made = g.op("ScatterElements", zeros, g.op("Reshape", places, [0, 0, -1]), g.op("Reshape", x, [0, 0, -1]), axis=2)
    return _back(g, g.reshape(made, [*front, *sides]), input, dims)
