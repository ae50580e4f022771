"""Arithmetic and functions element by element. ONNX's operators take inputs of one dtype, so each input is converted to
the dtype that the operator computes in."""


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


def trunc_of(g, x):
    """The integer part of a float: towards zero, with the sign kept."""
    return g.op("Mul", g.op("Sign", x), g.op("Floor", g.op("Abs", x)))


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


entry("maximum", lambda g, self, other: binary(g, "Max", self, other))
entry("minimum", lambda g, self, other: binary(g, "Min", self, other))


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


@translates("square")
def square(g, self):
    x, = operands(g, self)
    return g.op("Mul", x, x)


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
