"""Numbers that stand for sizes: shapes are always known here, so symbols are plain numbers with PyTorch's names."""

import math


class _Symbol:
    """Base of the symbol types, for isinstance: no value here is one, since every shape is known when a call runs."""

    def __init__(self, node):
        raise NotImplementedError(f"{type(self).__name__}: sizes are numbers here, never unknown")


class SymInt(_Symbol):
    """A symbolic int: never met here."""


class SymFloat(_Symbol):
    """A symbolic float: never met here."""


class SymBool(_Symbol):
    """A symbolic bool: never met here."""


def sym_int(a):
    """The number cut towards zero, as an int.

    >>> import flambeau
    >>> flambeau.sym_int(-3.7), flambeau.sym_float(3), flambeau.sym_max(2, 3.0)
    (-3, 3.0, 3.0)
    """
    return math.trunc(a)


def sym_float(a):
    """The number as a float."""
    return float(a)


def sym_not(a):
    """Not a."""
    return not a


def _common(a, b):
    return (float(a), float(b)) if isinstance(a, float) or isinstance(b, float) else (a, b)


def sym_max(a, b):
    """The larger; a float where either is one."""
    return max(*_common(a, b))


def sym_min(a, b):
    """The smaller; a float where either is one."""
    return min(*_common(a, b))


def sym_ite(b, t, f):
    """t if b else f, of one type."""
    if not isinstance(b, bool):
        raise AssertionError(f"expected SymBool or bool, got {type(b)}")
    if type(t) is not type(f):
        raise AssertionError(f"sym_ite: both values must be of one type, got {type(t)} and {type(f)}")
    return t if b else f


def sym_sum(args):
    """The sum."""
    total = 0
    for x in args:  # a loop that a signal can end: `args` may be without end
        total += x
    return total


def sym_sqrt(a):
    """The square root."""
    return math.sqrt(a)


def sym_fresh_size(expr):
    """Not available: sizes are numbers here."""
    raise NotImplementedError("sym_fresh_size: sizes are numbers here; there is no tracing with unknown sizes")
