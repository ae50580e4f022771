"""Padding: with a number, and with the border's own elements."""

from ... import _C
from .._emitter import Unavailable
from ._table import translates

_FAR = 2 ** 63 - 1


@translates("constant_pad_nd")
def constant_pad_nd(g, self, pad, value=0):
    return _padded(g, self, pad, "constant", value)


@translates("_border")
def border(g, self, pad, mode):
    return _padded(g, self, pad, {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode])


def _padded(g, self, pad, mode, value=None):
    """Pairs of pad are for the last dimension first; ONNX wants all beginnings, then all ends."""
    before, after = pad[0::2], pad[1::2]
    dims = [self.rank - 1 - k for k in range(len(before))]
    x, dtype = self, self.dtype
    if dtype is _C.bool:
        x, value = g.cast(x, _C.int32), int(bool(value))
    if mode == "constant" and any(isinstance(n, int) and n < 0 for n in pad):
        return _cut(g, x, pad, dims, value)
    if mode == "wrap" and g.opset < 19:
        raise Unavailable("circular padding needs opset 19; give a newer opset_version")
    return _pad(g, x, dims, before, after, mode, value)


def _pad(g, x, dims, before, after, mode, value):
    """Pad, with zeros for the other dimensions."""
    pads = [0] * (2 * x.rank)
    for dim, left, right in zip(dims, before, after, strict=True):
        pads[dim], pads[x.rank + dim] = left, right
    return g.op("Pad", x, g.listed(pads), None if value is None else g.of(value, x.dtype), mode=mode)


def _cut(g, x, pad, dims, value):
    """Padding in which a negative number cuts."""
    before, after = pad[0::2], pad[1::2]
    rank = x.rank
    for dim, left, right in zip(dims, before, after, strict=True):
        if min(left, right) < 0:
            x = g.slice(x, max(-left, 0), right if right < 0 else _FAR, dim)
    x.shape = x.shape or (None,) * rank
    return _pad(g, x, dims, [max(n, 0) for n in before], [max(n, 0) for n in after], "constant", value or 0)
