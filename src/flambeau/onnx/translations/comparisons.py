"""Comparisons, logic, bits, and choices by a condition."""

from ... import _C
from ._table import entry, translates
from .pointwise import common, operands


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


@translates("bitwise_left_shift")
def left_shift(g, self, other):
    return g.op("Mul", *operands(g, self), g.op("Pow", g.scalar(2, g.dtype), *operands(g, other)))


@translates("bitwise_right_shift")
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
