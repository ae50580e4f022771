"""Ragged sizes: the size that differs from part to part, as a number of which only its name is known.

Two sizes are equal where they are of the same lengths. Comparisons that would need the lengths are refused.
"""

import weakref

from .._shown import shown
from .numbers import SymInt


class RaggedSizeError(RuntimeError):
    """A number is asked for where the size differs from part to part."""


class RaggedSize(SymInt):
    """The size `j1` of a jagged tensor, or a multiple of it, `3*j1`, as strides have."""

    __slots__ = ("factor", "number")

    def __init__(self, number, factor=1):
        self.number, self.factor = number, factor

    def __repr__(self):
        return f"j{self.number}" if self.factor == 1 else f"{self.factor}*j{self.number}"

    def __hash__(self):
        return hash((self.number, self.factor)) if self.factor != 1 else self.number

    def __eq__(self, other):
        return isinstance(other, RaggedSize) and (self.number, self.factor) == (other.number, other.factor)

    def __ne__(self, other):
        return not self == other

    def __bool__(self):
        return True

    def __mul__(self, other):
        if type(other) is not int:
            return _refused("*")(self)
        return RaggedSize(self.number, self.factor * other)

    __rmul__ = __mul__

    def __ge__(self, other):
        return _at_least(self, other, True, ">=")

    def __gt__(self, other):
        return False if self == other else _at_least(self, other + 1 if type(other) is int else other, True, ">")

    def __lt__(self, other):
        return False if self == other else _at_least(self, other, False, "<")

    def __le__(self, other):
        return True if self == other else _at_least(self, other + 1 if type(other) is int else other, False, "<=")

    def __index__(self):
        return _refused("int()")(self)

    def __reduce__(self):
        return RaggedSize, (self.number, self.factor)


def _at_least(size, other, yes, sign):
    """Every ragged size counts as 2 or more, so that no branch for sizes 0 and 1 is taken."""
    if size == other:
        return True
    if type(other) is int and other <= 2:
        return yes
    raise ValueError(f"{shown(size)} {sign} {shown(other)}: the ragged size differs from part to part; compare the "
                     "lengths, x.offsets().diff(), or the longest, x._get_max_seqlen()")


def _refused(sign):
    def refuse(self, *_):
        raise RaggedSizeError(f"{sign}: {shown(self)} is a ragged size, which differs from part to part and is no "
                           "number; use the lengths, x.offsets().diff(), or pad first: x.to_padded_tensor(0)")

    return refuse


for _name, _sign in {"int": "int()", "float": "float()", "add": "+", "radd": "+", "sub": "-", "rsub": "-",
                     "floordiv": "//", "rfloordiv": "//", "truediv": "/", "rtruediv": "/", "mod": "%", "rmod": "%",
                     "pow": "**", "rpow": "**", "neg": "-", "abs": "abs()", "round": "round()", "trunc": "trunc()",
                     "floor": "floor()", "ceil": "ceil()", "lshift": "<<", "rshift": ">>", "and": "&", "or": "|",
                     "xor": "^"}.items():
    setattr(RaggedSize, f"__{_name}__", _refused(_sign))

_numbers = {}  # id of the tensor that tells the lengths -> (weak reference to it, number)
_made = iter(range(1, 1 << 62))


def size_of(source):
    """The ragged size of the tensor that tells the lengths (offsets, or lengths where there are): always the same."""
    known = _numbers.get(id(source))
    if known is None or known[0]() is not source:
        key = id(source)
        known = _numbers[key] = weakref.ref(source, lambda ref: _forget(key, ref)), next(_made)
    return RaggedSize(known[1])


def _forget(key, ref):
    if key in _numbers and _numbers[key][0] is ref:
        del _numbers[key]
