"""Complex tensors, which ONNX has not: pairs of real numbers in a last dimension of 2."""

import math

from ... import _C
from ..._tensor.creation import tensor
from .._dtypes import REAL_PARTS
from .._emitter import Unavailable
from .._graph import Value
from ._table import translates
from .functions import atan2, hypot
from .pointwise import binary


def parts(g, x):
    """(real part, imaginary part) of a complex tensor as real tensors of its sizes."""
    return [g.shaped(g.op("Gather", x, k, axis=len(x.shape), dtype=REAL_PARTS[x.dtype]), x.shape) for k in (0, 1)]


def paired(g, real, imag, rank):
    """A complex tensor of its parts."""
    return g.op("Concat", g.unsqueeze(real, rank), g.unsqueeze(imag, rank), axis=rank)


def _of(g, x):
    """The parts of a complex tensor, a real one or a number."""
    if isinstance(x, Value) and x.dtype.is_complex:
        return parts(g, x)
    if isinstance(x, complex):
        return [g.scalar(x.real, g.dtype), g.scalar(x.imag, g.dtype)]
    real = g.of(x, g.dtype)
    return [real, g.scalar(0.0, g.dtype)]


@translates("view_as_real", "view_as_complex", parts=True)
def view_as(g, self):
    """The same numbers in the file."""
    return g.op("Identity", self, dtype=g.dtype)


@translates("real", parts=True)
def real(g, self):
    return parts(g, self)[0] if self.dtype.is_complex else self


@translates("imag", parts=True)
def imag(g, self):
    return parts(g, self)[1]


@translates("complex", parts=True)
def complex_(g, real, imag):
    return paired(g, *_broadcast(g, real, imag), g.rank)


def _broadcast(g, a, b):
    """Both in the sizes of their sum."""
    if a.shape == b.shape:
        return a, b
    zero = g.op("Mul", g.op("Add", a, b), g.scalar(0.0, a.dtype))
    return g.op("Add", a, zero), g.op("Add", b, zero)


@translates("polar", parts=True)
def polar(g, abs, angle):
    return paired(g, g.op("Mul", abs, g.op("Cos", angle)), g.op("Mul", abs, g.op("Sin", angle)), g.rank)


@translates("conj", "_conj_physical", parts=True)
def conj(g, self):
    if not self.dtype.is_complex:
        return self
    a, b = parts(g, self)
    return paired(g, a, g.op("Neg", b), g.rank)


@translates("_to_copy", parts=True)
def to_copy(g, self, *, dtype=None, device=None, non_blocking=False, **layout):
    """To and from complex numbers."""
    if not self.dtype.is_complex:
        return paired(g, g.cast(self, g.dtype), g.op("Mul", g.cast(self, g.dtype), g.scalar(0.0, g.dtype)), g.rank)
    if g.complex:
        return paired(g, *(g.cast(x, g.dtype) for x in parts(g, self)), g.rank)
    return g.cast(parts(g, self)[0], g.dtype)


def _are_complex(*args):
    return any(isinstance(x, complex) or (isinstance(x, Value) and x.dtype.is_complex) for x in args)


@translates("mul", "_mul_conj", parts=True)
def mul(g, self, other):
    """(a + bi)(c + di); `_mul_conj` with the conjugate of the second."""
    if not _are_complex(self, other):
        return binary(g, "Mul", self, other)
    (a, b), (c, d) = _of(g, self), _of(g, other)
    if g.kind == "_mul_conj":
        d = g.op("Neg", d)
    if not isinstance(self, Value) or not self.dtype.is_complex:
        return paired(g, g.op("Mul", a, c), g.op("Mul", a, d), g.rank)
    if (not isinstance(other, Value) and not isinstance(other, complex)) or (
            isinstance(other, Value) and not other.dtype.is_complex):
        return paired(g, g.op("Mul", a, c), g.op("Mul", b, c), g.rank)
    real = g.op("Sub", g.op("Mul", a, c), g.op("Mul", b, d))
    return paired(g, real, g.op("Add", g.op("Mul", a, d), g.op("Mul", b, c)), g.rank)


@translates("div", "_div_conj", parts=True)
def div(g, self, other, *, rounding_mode=None):
    """Times the conjugate, over the square of the absolute value."""
    if not _are_complex(self, other):
        return binary(g, "Div", self, other)
    if rounding_mode is not None:
        raise Unavailable("complex numbers are not rounded")
    (a, b), (c, d) = _of(g, self), _of(g, other)
    if g.kind == "_div_conj":
        d = g.op("Neg", d)
    square = g.op("Add", g.op("Mul", c, c), g.op("Mul", d, d))
    real = g.op("Add", g.op("Mul", a, c), g.op("Mul", b, d))
    imag = g.op("Sub", g.op("Mul", b, c), g.op("Mul", a, d))
    return paired(g, g.op("Div", real, square), g.op("Div", imag, square), g.rank)


def _sum(kind):
    def translation(g, self, other, *, alpha=1):
        if isinstance(alpha, complex):
            raise Unavailable("a complex alpha is not written; multiply before")
        (a, b), (c, d) = _of(g, self), _of(g, other)
        if alpha != 1:
            c, d = (g.op("Mul", x, g.scalar(alpha, x.dtype)) for x in (c, d))
        zero = g.op("Mul", g.op("Add", a, c), g.scalar(0.0, a.dtype))
        return paired(g, g.op(kind, a, c), g.op("Add", g.op(kind, b, d), zero), g.rank)
    return translation


translates("add", parts=True)(_sum("Add"))
translates("sub", parts=True)(_sum("Sub"))


@translates("abs", parts=True)
def abs_(g, self):
    return hypot(g, *parts(g, self))


@translates("angle", parts=True)
def angle(g, self):
    if self.dtype.is_complex:
        a, b = parts(g, self)
        return atan2(g, b, a)
    zero, pi = g.scalar(0.0, g.dtype), g.scalar(math.pi, g.dtype)
    x = g.of(self, g.dtype)
    turned = g.op("Where", g.op("Less", x, zero), pi, zero)
    return g.op("Where", g.op("IsNaN", x), x, turned)


@translates("exp", parts=True)
def exp(g, self):
    a, b = parts(g, self)
    size = g.op("Exp", a)
    return paired(g, g.op("Mul", size, g.op("Cos", b)), g.op("Mul", size, g.op("Sin", b)), g.rank)


@translates("reciprocal", parts=True)
def reciprocal(g, self):
    return div(g, 1.0, self)


@translates("mm", "bmm", "matmul", "mv", "dot", parts=True)
def matmul(g, self, other):
    (a, b), (c, d) = parts(g, self), parts(g, other)
    real = g.op("Sub", g.op("MatMul", a, c), g.op("MatMul", b, d))
    return paired(g, real, g.op("Add", g.op("MatMul", a, d), g.op("MatMul", b, c)), g.rank)


# ---- Fourier transforms ----------------------------------------------------------------------------------------------

def _dft(g, x, dim, n, forward, onesided=False):
    """DFT along one dimension, of as many numbers as n; the inverse without its division by n."""
    given = {"inverse": 0 if forward else 1, "onesided": int(onesided)}
    length = g.scalar(n, _C.int64) if isinstance(n, int) else g.squeeze(n, 0)
    if g.opset >= 20:
        return g.op("DFT", x, length, g.ints(dim), **given)
    return g.op("DFT", x, length, axis=dim, **given)


def _times(g, x, factor, dtype):
    return x if factor == 1 else g.op("Mul", x, g.scalar(factor, dtype))


def _conjugation(g):
    return g.const(tensor([1.0, -1.0], dtype=g.dtype))


def _known(dims, n):
    if not all(isinstance(k, int) for k in n):
        raise Unavailable("Fourier transforms along open sizes are not written; give the lengths")
    return list(zip(dims, n, strict=True))


@translates("_fft_c2c", parts=True)
def fft_c2c(g, self, dim, n, scale, forward):
    x, factor = self, scale
    for d, length in _known([d % len(self.shape) for d in dim], n):
        x = _dft(g, x, d, length, forward)
        factor = factor if forward else factor * length
    return _times(g, x, factor, g.dtype)


@translates("_fft_r2c", parts=True)
def fft_r2c(g, self, dim, n, scale, forward):
    """One side along the last of the dimensions; the inverse direction is the conjugate of the forward one."""
    rank = len(self.shape)
    pairs = _known([d % rank for d in dim], n)
    x = _dft(g, g.unsqueeze(self, rank), *pairs[-1], True, onesided=True)
    for d, length in pairs[:-1]:
        x = _dft(g, x, d, length, True)
    x = _times(g, x, scale, g.dtype)
    if not forward:
        x = g.op("Mul", x, _conjugation(g))
    return x


@translates("_fft_c2r", parts=True)
def fft_c2r(g, self, dim, n, scale, forward):
    """The other side is the conjugate of this one in reverse; what is transformed then is real."""
    rank = len(self.shape)
    pairs = _known([d % rank for d in dim], n)
    x, factor = self, scale
    for d, length in pairs[:-1]:
        x = _dft(g, x, d, length, forward)
        factor = factor if forward else factor * length
    last, length = pairs[-1]
    half = length // 2 + 1
    have = self.shape[last]
    if not isinstance(have, int):
        raise Unavailable("Fourier transforms along open sizes are not written; give the lengths")
    if have > half:
        x = g.slice(x, 0, half, last)
    elif have < half:
        pads = [0] * (rank + 1)
        pads[last] = half - have
        x = g.op("Pad", x, [*[0] * (rank + 1), *pads])
    inner = (length - 1) // 2
    if inner:
        back = g.op("Slice", x, [inner], [0], [last], [-1])
        x = g.op("Concat", x, g.op("Mul", back, _conjugation(g)), axis=last)
    x = _dft(g, x, last, length, forward)
    factor = factor if forward else factor * length
    return _times(g, g.op("Gather", x, 0, axis=rank), factor, g.dtype)
