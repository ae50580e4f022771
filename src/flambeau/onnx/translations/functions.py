"""Functions element by element: roots, exponentials, angles, rounding."""

import math

from ... import _C
from ._table import entry, translates
from .pointwise import operands, trunc_of


def _unary(kind):
    return lambda g, self: g.op(kind, *operands(g, self))


for _name, _kind_of in {
        "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin",
        "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "asinh": "Asinh",
        "acosh": "Acosh", "atanh": "Atanh", "sigmoid": "Sigmoid", "erf": "Erf", "reciprocal": "Reciprocal",
        "neg": "Neg", "_neg_view": "Neg"}.items():
    entry(_name, _unary(_kind_of))


def _rounding(kind):
    def translation(g, self):
        return g.op(kind, self) if g.dtype.is_floating_point else self
    return translation


for _name, _kind_of in {"floor": "Floor", "ceil": "Ceil"}.items():
    entry(_name, _rounding(_kind_of))


@translates("sign", "sgn")
def sign(g, self):
    """Of a NaN it is 0."""
    if not self.dtype.is_floating_point:
        return self if self.dtype is _C.bool else g.op("Sign", self)
    return g.op("Where", g.op("IsNaN", self), g.scalar(0, self.dtype), g.op("Sign", self))


@translates("abs")
def abs_(g, self):
    return self if self.dtype in (_C.uint8, _C.bool) else g.op("Abs", self)


@translates("trunc")
def trunc(g, self):
    return trunc_of(g, self) if g.dtype.is_floating_point else self


@translates("frac")
def frac(g, self):
    return g.op("Sub", self, trunc_of(g, self))


@translates("round")
def round_(g, self, *, decimals=0):
    if not g.dtype.is_floating_point:
        return self
    if not decimals:
        return g.op("Round", self)
    scale, (first, second) = g.scalar(10.0 ** abs(decimals), self.dtype), ("Mul", "Div") if decimals > 0 else (
        "Div", "Mul")
    return g.op(second, g.op("Round", g.op(first, self, scale)), scale)


@translates("relu")
def relu(g, self, inplace=False):
    return g.op("Relu", self)


@translates("rsqrt")
def rsqrt(g, self):
    return g.op("Reciprocal", g.op("Sqrt", *operands(g, self)))


def _times(kind, factor):
    def translation(g, self):
        x, = operands(g, self)
        return g.op("Mul", g.op(kind, x) if kind else x, g.scalar(factor, g.dtype))
    return translation


entry("log2", _times("Log", 1 / math.log(2)))
entry("log10", _times("Log", 1 / math.log(10)))
entry("deg2rad", _times(None, math.pi / 180))
entry("rad2deg", _times(None, 180 / math.pi))


@translates("exp2")
def exp2(g, self):
    return g.op("Pow", g.scalar(2.0, g.dtype), *operands(g, self))


def log1p_of(g, x):
    """log(1 + x), exact for small x as well: the rounding of 1 + x is taken back (Goldberg 1991)."""
    one = g.scalar(1.0, x.dtype)
    y = g.op("Add", x, one)
    share = g.op("Div", g.op("Mul", g.op("Log", y), x), g.op("Sub", y, one))
    # where x is lost in the sum the answer is x, where it swallows the one log(x)
    share = g.op("Where", g.op("Equal", g.op("Sub", y, one), x), g.op("Log", y), share)
    return g.op("Where", g.op("Equal", y, one), x, share)


@translates("log1p")
def log1p(g, self):
    return log1p_of(g, *operands(g, self))


@translates("expm1")
def expm1(g, self):
    """exp(x) - 1 = 2 tanh(x/2) / (1 - tanh(x/2)), which is exact for small x; elsewhere as it stands."""
    x, = operands(g, self)
    one = g.scalar(1.0, x.dtype)
    t = g.op("Tanh", g.op("Mul", x, g.scalar(0.5, x.dtype)))
    near = g.op("Div", g.op("Add", t, t), g.op("Sub", one, t))
    return g.op("Where", g.op("Less", g.op("Abs", x), one), near, g.op("Sub", g.op("Exp", x), one))


@translates("erfc")
def erfc(g, self):
    x, = operands(g, self)
    return g.op("Sub", g.scalar(1.0, x.dtype), g.op("Erf", x))


@translates("hypot")
def hypot(g, self, other):
    """The larger side times the square root of one plus the ratio's square: no overflow on the way."""
    a, b = (g.op("Abs", x) for x in operands(g, self, other))
    high, low, zero = g.op("Max", a, b), g.op("Min", a, b), g.scalar(0.0, g.dtype)
    ratio = g.op("Where", g.op("Equal", high, zero), zero, g.op("Div", low, high))
    found = g.op("Mul", high, g.op("Sqrt", g.op("Add", g.op("Mul", ratio, ratio), g.scalar(1.0, g.dtype))))
    return g.op("Where", g.op("IsInf", high), high, found)


@translates("atan2")
def atan2(g, self, other):
    """The angle of (other, self): that of the quotient, and half a turn on the left side."""
    y, x = operands(g, self, other)
    zero, pi = g.scalar(0.0, g.dtype), g.scalar(math.pi, g.dtype)
    below = g.op("Or", g.op("Less", y, zero), g.op("Less", g.op("Reciprocal", y), zero))
    turn = g.op("Where", below, g.op("Neg", pi), pi)
    left = g.op("Or", g.op("Less", x, zero), g.op("And", g.op("Equal", x, zero), g.op(
        "Less", g.op("Reciprocal", x), zero)))
    both_zero = g.op("And", g.op("Equal", x, zero), g.op("Equal", y, zero))
    angle = g.op("Where", both_zero, y, g.op("Atan", g.op("Div", y, x)))
    return g.op("Where", left, g.op("Add", angle, turn), angle)


@translates("logaddexp")
def logaddexp(g, self, other):
    return _log_sum(g, *operands(g, self, other), 1.0)


@translates("logaddexp2")
def logaddexp2(g, self, other):
    return _log_sum(g, *operands(g, self, other), math.log(2))


def _log_sum(g, a, b, base):
    """max + log(1 + exp(-|a - b|)), in units of the base's logarithm; equal infinities are the sum."""
    high, scale = g.op("Max", a, b), g.scalar(base, a.dtype)
    distance = g.op("Mul", g.op("Neg", g.op("Abs", g.op("Sub", a, b))), scale)
    found = g.op("Add", high, g.op("Div", log1p_of(g, g.op("Exp", distance)), scale))
    return g.op("Where", g.op("And", g.op("Equal", a, b), g.op("IsInf", a)), a, found)


def _x_log(g, x, logarithm):
    zero = g.scalar(0.0, g.dtype)
    product = g.op("Mul", x, logarithm)
    return g.op("Where", g.op("And", g.op("Equal", x, zero), g.op("Not", g.op("IsNaN", logarithm))), zero, product)


@translates("xlogy")
def xlogy(g, self, other):
    x, y = operands(g, self, other)
    return _x_log(g, x, g.op("Log", y))


@translates("special_xlog1py")
def xlog1py(g, self, other):
    x, y = operands(g, self, other)
    return _x_log(g, x, log1p_of(g, y))


@translates("sinc")
def sinc(g, self):
    """sin(pi x) / (pi x), and 1 at zero."""
    x, = operands(g, self)
    turned = g.op("Mul", x, g.scalar(math.pi, x.dtype))
    share = g.op("Div", g.op("Sin", turned), turned)
    return g.op("Where", g.op("Equal", x, g.scalar(0.0, x.dtype)), g.scalar(1.0, x.dtype), share)


@translates("special_entr")
def entr(g, self):
    """-x log x; 0 at zero, minus infinity below."""
    x, = operands(g, self)
    zero = g.scalar(0.0, x.dtype)
    found = g.op("Where", g.op("Equal", x, zero), zero, g.op("Neg", g.op("Mul", x, g.op("Log", x))))
    return g.op("Where", g.op("Less", x, zero), g.scalar(-math.inf, x.dtype), found)


@translates("special_ndtr")
def ndtr(g, self):
    """(1 + erf(x / sqrt 2)) / 2."""
    x, = operands(g, self)
    inner = g.op("Erf", g.op("Mul", x, g.scalar(math.sqrt(0.5), x.dtype)))
    return g.op("Mul", g.op("Add", inner, g.scalar(1.0, x.dtype)), g.scalar(0.5, x.dtype))
