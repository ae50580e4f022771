"""What an exported program asks of its arguments: sizes, their ranges, conditions, and values that it was made with."""

import flambeau

from .. import _C
from .._shown import shown
from .._symbolic.expressions import Poly, Symbol, told
from .._symbolic.statements import INFINITE


class ValueRanges:
    """The least and the largest number that a size may be; `upper` is infinite where there is none."""

    __slots__ = ("lower", "upper")

    def __init__(self, lower, upper):
        self.lower, self.upper = lower, upper

    def __eq__(self, other):
        return isinstance(other, ValueRanges) and (self.lower, self.upper) == (other.lower, other.upper)

    def __hash__(self):
        return hash((self.lower, self.upper))

    def __contains__(self, number):
        return self.lower <= number <= self.upper

    def __repr__(self):
        lower = "-int_oo" if self.lower == -INFINITE else self.lower
        return f"VR[{lower}, {'int_oo' if self.upper == INFINITE else self.upper}]"


class InputChecks(flambeau.nn.Module):
    """Raises an AssertionError for arguments that the program is not for.

    inputs: (name, what) of each: what is the sizes of a tensor as expressions, a Poly for an open int, or ("value", v)
    """

    _is_impure = True

    def __init__(self, inputs, ranges, guards):
        super().__init__()
        self.inputs, self.ranges, self.guards = inputs, ranges, guards

    def forward(self, *values):
        """None where all is well."""
        numbers, later = {}, []
        for (name, what), value in zip(self.inputs, values, strict=True):
            for where, expr, number in self._sizes(name, what, value):
                symbol = lone(expr)
                if symbol is None or numbers.setdefault(symbol, number) != number:
                    later.append((where, expr, number))
        self._solve(numbers, later)
        for where, expr, number in later:
            if expr.evaluate(numbers) != number:
                wanted = told(expr) if expr.is_number else f"{told(expr)}, which is {expr.evaluate(numbers)} here"
                raise AssertionError(f"{where} must be {wanted}, got {number}")
        for symbol, number in numbers.items():
            if symbol in self.ranges and number not in self.ranges[symbol]:
                where = next(w for (n, what), v in zip(self.inputs, values, strict=True)
                             for w, e, _ in self._sizes(n, what, v) if symbol in e.free_symbols)
                raise AssertionError(f"{where}: {told(symbol)} must be in {told(self.ranges[symbol])}, got {number}")
        for guard in self.guards:
            if not guard.evaluate(numbers):
                raise AssertionError(f"the program is for sizes with {told(guard)}, got {told(numbers)}")

    def _sizes(self, name, what, value):
        """(where, expression, number) of each size."""
        if what is None:
            return []
        if isinstance(what, Poly):
            return [(name, what, int(value))]
        if what and what[0] == "value":
            same = type(value) is type(what[1]) and (value == what[1] or value is what[1])
            if not same:
                raise AssertionError(f"{name} must be {shown(what[1])}, the value that the program was exported with, "
                                     f"got {shown(value)}")
            return []
        if not isinstance(value, _C.Tensor) or value.dim() != len(what):
            raise AssertionError(f"{name} must be a tensor of {len(what)} dimensions, got {shown(value)}")
        return [(f"{name}.shape[{d}]", expr, n) for d, (expr, n) in enumerate(zip(what, value.shape, strict=True))]

    def _solve(self, numbers, later):
        """Finds symbols that only occur in sums and products with numbers."""
        for where, expr, number in later:
            unknown = expr.free_symbols - numbers.keys()
            if len(unknown) == 1:
                symbol, = unknown
                factor, offset = expr.terms.get(((symbol, 1),), 0), expr.terms.get((), 0)
                if factor and not (number - offset) % factor:
                    numbers[symbol] = (number - offset) // factor
                else:
                    raise AssertionError(f"{where} must be {told(expr)} of an integer, got {number}")


def lone(expr):
    """The Symbol that an expression is, or None."""
    if isinstance(expr, Poly) and len(expr.terms) == 1:
        (monomial, factor), = expr.terms.items()
        if factor == 1 and len(monomial) == 1 and monomial[0][1] == 1 and isinstance(monomial[0][0], Symbol):
            return monomial[0][0]
    return None
