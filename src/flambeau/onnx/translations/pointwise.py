"""Arithmetic and functions element by element. ONNX's operators take inputs of one dtype, so each input is converted to
the dtype that the operator computes in."""

import math

from ... import _C
from ..._tensor.dtypes import finfo
from .._graph import Value
from ._table import entry, translates


def operands(g, *args, dtype=None):
    """The arguments in the dtype of the result, or in this one."""
    return [g.of(x, g.dtype if dtype is None else dtype) for x in args]


def common(g, *args):
    """The arguments in the dtype that they have together, for operators with another dtype of the result."""
    dtype = None
    typed = [(x.dtype, len(x.shape) > 0) for x in args if isinstance(x, Value) and not x.number]
    for category in (True, False):  # dimensions first: a tensor without decides only by a higher kind of number
        group = None
        for its, dimensions in typed:
            if dimensions is category:
                group = its if group is None else _C.promote_types(group, its)
        dtype = _together(dtype, group)
    for x in args:
        if not isinstance(x, Value) or x.number:
            dtype = _together(dtype, _of_number(x))
    return [g.of(x, dtype) for x in args], dtype


def _of_number(x):
    if isinstance(x, Value):
        return x.dtype if not x.dtype.is_floating_point else _C.float32
    return _C.bool if isinstance(x, bool) else _C.int64 if isinstance(x, int) else _C.float32


def _kind(dtype):
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else 0 if dtype is _C.bool else 1


def _together(first, second):
    if first is None or second is None:
        return first or second
    return second if _kind(second) > _kind(first) else first


# ---- one operator of ONNX for one of ours ----------------------------------------------------------------------------

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
    return self if self.dtype is _C.bool else g.op("Sign", self)


def trunc_of(g, x):
    """The integer part of a float: towards zero, with the sign kept."""
    return g.op("Mul", g.op("Sign", x), g.op("Floor", g.op("Abs", x)))


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


@translates("square")
def square(g, self):
    x, = operands(g, self)
    return g.op("Mul", x, x)


def _times(kind, factor):
    def translation(g, self):
        x, = operands(g, self)
        return g.op("Mul", g.op(kind, x) if kind else x, g.scalar(factor, g.dtype))
    return translation


entry("log2", _times("Log", 1 / math.log(2)))
entry("log10", _times("Log", 1 / math.log(10)))
entry("deg2rad", _times(None, math.pi / 180))
entry("rad2deg", _times(None, 180 / math.pi))


@translates("exp2", "special_exp2")
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


@translates("expm1", "special_expm1")
def expm1(g, self):
    """exp(x) - 1 = 2 tanh(x/2) / (1 - tanh(x/2)), which is exact for small x; elsewhere as it stands."""
    x, = operands(g, self)
    one = g.scalar(1.0, x.dtype)
    t = g.op("Tanh", g.op("Mul", x, g.scalar(0.5, x.dtype)))
    near = g.op("Div", g.op("Add", t, t), g.op("Sub", one, t))
    return g.op("Where", g.op("Less", g.op("Abs", x), one), near, g.op("Sub", g.op("Exp", x), one))


@translates("erfc", "special_erfc")
def erfc(g, self):
    x, = operands(g, self)
    return g.op("Sub", g.scalar(1.0, x.dtype), g.op("Erf", x))


# ---- arithmetic ------------------------------------------------------------------------------------------------------

_LOGICAL = {"Add": "Or", "Mul": "And", "Max": "Or", "Min": "And", "Sub": "Xor"}


def binary(g, kind, a, b):
    """An operator of two inputs in the dtype of the result; of bools what it means for them."""
    a, b = operands(g, a, b)
    return g.op(_LOGICAL.get(kind, kind) if g.dtype is _C.bool else kind, a, b)


def _scaled(g, other, alpha):
    if alpha == 1 and not isinstance(alpha, Value):
        return other
    return binary(g, "Mul", other, alpha)


@translates("add")
def add(g, self, other, *, alpha=1):
    return binary(g, "Add", self, _scaled(g, other, alpha))


@translates("sub")
def sub(g, self, other, *, alpha=1):
    return binary(g, "Sub", self, _scaled(g, other, alpha))


@translates("rsub")
def rsub(g, self, other, *, alpha=1):
    return binary(g, "Sub", other, _scaled(g, self, alpha))


entry("mul", lambda g, self, other: binary(g, "Mul", self, other))


def nan_kept(g, kind, *args):
    """Max or Min, in which a NaN wins, as it does in ONNX."""
    return binary(g, kind, *args)


entry("maximum", lambda g, self, other: nan_kept(g, "Max", self, other))
entry("minimum", lambda g, self, other: nan_kept(g, "Min", self, other))


def _without_nan(kind):
    def translation(g, self, other):
        a, b = operands(g, self, other)
        if not g.dtype.is_floating_point:
            return binary(g, kind, a, b)
        return g.op("Where", g.op("IsNaN", a), b, g.op("Where", g.op("IsNaN", b), a, g.op(kind, a, b)))
    return translation


entry("fmax", _without_nan("Max"))
entry("fmin", _without_nan("Min"))


def remainder_of(g, a, b):
    """The remainder with the sign of the divisor."""
    if not a.dtype.is_floating_point:
        return g.op("Mod", a, b)
    r, zero = g.op("Mod", a, b, fmod=1), g.scalar(0.0, a.dtype)
    differs = g.op("And", g.op("Not", g.op("Equal", r, zero)),
                   g.op("Xor", g.op("Less", r, zero), g.op("Less", b, zero)))
    return g.op("Where", differs, g.op("Add", r, b), r)


@translates("remainder")
def remainder(g, self, other):
    return remainder_of(g, *operands(g, self, other))


@translates("fmod")
def fmod(g, self, other):
    return g.op("Mod", *operands(g, self, other), fmod=1)


@translates("floor_divide")
def floor_divide(g, self, other):
    """The quotient rounded down: what is left when the remainder is taken away divides without a rest."""
    a, b = operands(g, self, other)
    rest = remainder_of(g, a, b)
    exact = g.op("Div", g.op("Sub", a, rest), b)
    if not g.dtype.is_floating_point:
        return exact
    by_zero = g.op("Equal", b, g.scalar(0.0, b.dtype))
    return g.op("Where", by_zero, g.op("Div", a, b), g.op("Round", exact))


@translates("div")
def div(g, self, other, *, rounding_mode=None):
    if rounding_mode == "floor":
        return floor_divide(g, self, other)
    quotient = g.op("Div", *operands(g, self, other))
    return trunc_of(g, quotient) if rounding_mode == "trunc" and g.dtype.is_floating_point else quotient


@translates("pow")
def pow_(g, self, exponent):
    if not isinstance(exponent, Value) and g.dtype.is_floating_point:
        if exponent == 2:
            return square(g, self)
        if exponent == 0.5:
            return g.op("Sqrt", *operands(g, self))
    return g.op("Pow", *operands(g, self, exponent))


@translates("addcmul")
def addcmul(g, self, tensor1, tensor2, *, value=1):
    return binary(g, "Add", self, _scaled(g, binary(g, "Mul", tensor1, tensor2), value))


@translates("addcdiv")
def addcdiv(g, self, tensor1, tensor2, *, value=1):
    return binary(g, "Add", self, _scaled(g, g.op("Div", *operands(g, tensor1, tensor2)), value))


@translates("lerp")
def lerp(g, self, end, weight):
    """start + weight (end - start), and from the other end where the weight is above one half."""
    start, end, weight = operands(g, self, end, weight)
    way, one, half = g.op("Sub", end, start), g.scalar(1.0, g.dtype), g.scalar(0.5, g.dtype)
    low = g.op("Add", start, g.op("Mul", weight, way))
    high = g.op("Sub", end, g.op("Mul", way, g.op("Sub", one, weight)))
    return g.op("Where", g.op("Less", g.op("Abs", weight), half), low, high)


@translates("clamp")
def clamp(g, self, min=None, max=None):
    if g.dtype.is_floating_point and not any(isinstance(b, Value) for b in (min, max)):
        return g.op("Clip", *operands(g, self), *(None if b is None else g.scalar(b, g.dtype) for b in (min, max)))
    x, = operands(g, self)
    x = x if min is None else binary(g, "Max", x, min)
    return x if max is None else binary(g, "Min", x, max)


@translates("copysign")
def copysign(g, self, other):
    """The sign of zero is that of what it divides."""
    a, b = operands(g, self, other)
    zero = g.scalar(0.0, g.dtype)
    minus = g.op("Less", b, zero)
    minus_zero = g.op("And", g.op("Equal", b, zero), g.op("Less", g.op("Reciprocal", b), zero))
    a = g.op("Abs", a)
    return g.op("Where", g.op("Or", minus, minus_zero), g.op("Neg", a), a)


@translates("heaviside")
def heaviside(g, self, values):
    a, b = operands(g, self, values)
    zero, one = g.scalar(0, g.dtype), g.scalar(1, g.dtype)
    step = g.op("Where", g.op("Equal", a, zero), b, g.op("Where", g.op("Less", a, zero), zero, one))
    return g.op("Where", g.op("IsNaN", a), zero, step) if g.dtype.is_floating_point else step


@translates("nan_to_num")
def nan_to_num(g, self, nan=None, posinf=None, neginf=None):
    if not g.dtype.is_floating_point:
        return self
    largest = finfo(g.dtype).max
    high = posinf if posinf is not None else largest
    low = neginf if neginf is not None else -largest
    x = g.op("Where", g.op("IsNaN", self), g.scalar(nan or 0.0, g.dtype), self)
    x = g.op("Where", g.op("IsInf", self, detect_negative=0), g.scalar(high, g.dtype), x)
    return g.op("Where", g.op("IsInf", self, detect_positive=0), g.scalar(low, g.dtype), x)


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


# ---- comparisons and logic -------------------------------------------------------------------------------------------

def compared(g, kind, self, other):
    """A comparison, in the dtype of both."""
    (a, b), _ = common(g, self, other)
    return g.op(kind, a, b)


for _name, _kind_of in {"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater",
                        "ge": "GreaterOrEqual"}.items():
    entry(_name, lambda g, self, other, kind=_kind_of: compared(g, kind, self, other))


@translates("ne")
def ne(g, self, other):
    return g.op("Not", compared(g, "Equal", self, other))


for _name, _kind_of in {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}.items():
    entry(_name, lambda g, self, other, kind=_kind_of: g.op(kind, *operands(g, self, other, dtype=_C.bool)))


@translates("logical_not")
def logical_not(g, self):
    return g.op("Not", *operands(g, self, dtype=_C.bool))


def _false(g, self):
    return g.op("Not", g.op("Equal", self, self))


@translates("isnan")
def isnan(g, self):
    return g.op("IsNaN", self) if self.dtype.is_floating_point else _false(g, self)


@translates("isinf")
def isinf(g, self):
    return g.op("IsInf", self) if self.dtype.is_floating_point else _false(g, self)


@translates("isposinf")
def isposinf(g, self):
    return g.op("IsInf", self, detect_negative=0) if self.dtype.is_floating_point else _false(g, self)


@translates("isneginf")
def isneginf(g, self):
    return g.op("IsInf", self, detect_positive=0) if self.dtype.is_floating_point else _false(g, self)


@translates("isfinite")
def isfinite(g, self):
    if not self.dtype.is_floating_point:
        return g.op("Equal", self, self)
    return g.op("Not", g.op("Or", g.op("IsNaN", self), g.op("IsInf", self)))


@translates("signbit")
def signbit(g, self):
    zero = g.scalar(0, self.dtype)
    below = g.op("Less", self, zero)
    if not self.dtype.is_floating_point:
        return below
    return g.op("Or", below, g.op("Less", g.op("Reciprocal", self), zero))


for _name, _kind_of in {"bitwise_and": "And", "bitwise_or": "Or", "bitwise_xor": "Xor"}.items():
    entry(_name, lambda g, self, other, kind=_kind_of: g.op(
        kind if g.dtype is _C.bool else f"Bitwise{kind}", *operands(g, self, other)))


@translates("bitwise_not")
def bitwise_not(g, self):
    return g.op("Not" if g.dtype is _C.bool else "BitwiseNot", self)


@translates("bitwise_left_shift", "__lshift__")
def left_shift(g, self, other):
    return g.op("Mul", *operands(g, self), g.op("Pow", g.scalar(2, g.dtype), *operands(g, other)))


@translates("bitwise_right_shift", "__rshift__")
def right_shift(g, self, other):
    """Division by a power of two, rounded down."""
    a, b = operands(g, self)[0], g.op("Pow", g.scalar(2, g.dtype), *operands(g, other))
    return g.op("Div", g.op("Sub", a, g.op("Mod", a, b)), b)


@translates("where")
def where(g, condition, self, other):
    return g.op("Where", *operands(g, condition, dtype=_C.bool), *operands(g, self, other))


@translates("masked_fill")
def masked_fill(g, self, mask, value):
    return g.op("Where", mask, *operands(g, value, self))
