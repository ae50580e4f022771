"""Statements about sizes: comparisons, and whether they hold for all sizes of given ranges."""

import math
import operator

from .expressions import Call, Poly, Symbol, constant, free_symbols, substitute, value_of

#: {name: (what it compares by, its contrary, as it is written)}
RELATIONS = {"Eq": (operator.eq, "Ne", "=="), "Ne": (operator.ne, "Eq", "!="), "Lt": (operator.lt, "Ge", "<"),
             "Ge": (operator.ge, "Lt", ">="), "Gt": (operator.gt, "Le", ">"), "Le": (operator.le, "Gt", "<=")}


class Relation:
    """A comparison of two expressions: name is a key of RELATIONS."""

    __slots__ = ("left", "name", "right")

    def __init__(self, name, left, right):
        self.name, self.left, self.right = name, left, right

    def __eq__(self, other):
        return isinstance(other, Relation) and (self.name, self.left, self.right) == (other.name, other.left,
                                                                                     other.right)

    def __hash__(self):
        return hash((self.name, self.left, self.right))

    def __repr__(self):
        if self.name in ("Eq", "Ne"):
            return f"{self.name}({self.left!r}, {self.right!r})"
        return f"{self.left!r} {RELATIONS[self.name][2]} {self.right!r}"

    def evaluate(self, values):
        """Whether it holds."""
        return RELATIONS[self.name][0](value_of(self.left, values), value_of(self.right, values))

    @property
    def free_symbols(self):
        """The symbols of both sides."""
        return free_symbols(self.left) | free_symbols(self.right)

    def contrary(self):
        """The statement that holds exactly where this does not."""
        return Relation(RELATIONS[self.name][1], self.left, self.right)

    def substituted(self, replacements):
        """With other expressions in the place of symbols."""
        return Relation(self.name, substitute(self.left, replacements), substitute(self.right, replacements))


class Logic:
    """Statements joined by "And" or "Or", or one with "Not"."""

    __slots__ = ("args", "name")

    def __init__(self, name, *args):
        self.name, self.args = name, args

    def __eq__(self, other):
        return isinstance(other, Logic) and (self.name, self.args) == (other.name, other.args)

    def __hash__(self):
        return hash((self.name, self.args))

    def __repr__(self):
        return f"{self.name}({', '.join(map(repr, self.args))})"

    def evaluate(self, values):
        """Whether it holds."""
        found = [a if isinstance(a, bool) else a.evaluate(values) for a in self.args]
        return not found[0] if self.name == "Not" else all(found) if self.name == "And" else any(found)

    @property
    def free_symbols(self):
        """The symbols in it."""
        return set().union(*(free_symbols(a) for a in self.args))

    def contrary(self):
        """Not this."""
        return self.args[0] if self.name == "Not" else Logic("Not", self)

    def substituted(self, replacements):
        """With other expressions in the place of symbols."""
        return Logic(self.name, *(substitute(a, replacements) for a in self.args))


# ---- what is certain -------------------------------------------------------------------------------------------------

INFINITE = math.inf


def interval(x, ranges):
    """(least, largest) value of an expression where symbols lie in these: {Symbol: (low, high)}; may be too wide."""
    if isinstance(x, (int, float)):
        return x, x
    if isinstance(x, Symbol):
        return ranges.get(x, (-INFINITE, INFINITE))
    if isinstance(x, Call):
        return _interval_of_call(x, ranges)
    low = high = 0
    for monomial, factor in x.terms.items():
        bounds = (factor, factor)
        for one, power in monomial:
            part = interval(one, ranges)
            for _ in range(power):
                bounds = _times(bounds, part)
        low, high = low + bounds[0], high + bounds[1]
    return low, high


def _times(a, b):
    corners = [0 if 0 in (x, y) else x * y for x in a for y in b]
    return min(corners), max(corners)


def _interval_of_call(x, ranges):
    parts = [interval(a, ranges) for a in x.args]
    if x.name in ("Max", "Min"):
        choose = max if x.name == "Max" else min
        return choose(low for low, _ in parts), choose(high for _, high in parts)
    if x.name == "Mod" and parts[1][0] > 0:
        return 0, parts[1][1] - 1
    if x.name == "FloorDiv" and parts[1][0] > 0:
        corners = [_floor(a, b) for a in parts[0] for b in parts[1]]
        return min(corners), max(corners)
    if x.name in ("ToFloat", "TruncToInt"):
        return parts[0]
    return -INFINITE, INFINITE


def _floor(a, b):
    if math.isinf(b):
        return 0 if a >= 0 else -1
    return a if math.isinf(a) else a // b


def certain(statement, ranges):
    """True or False where a statement holds for all symbols in these ranges, or for none; None where it depends."""
    if isinstance(statement, bool):
        return statement
    if isinstance(statement, Logic):
        found = [certain(a, ranges) for a in statement.args]
        if statement.name == "Not":
            return None if found[0] is None else not found[0]
        decides = statement.name == "Or"
        if decides in found:
            return decides
        return None if None in found else not decides
    left, right = statement.left, statement.right
    if isinstance(left, Poly) and isinstance(right, Poly):
        left, right = left - right, constant(0)
    (low, high), (least, most) = interval(left, ranges), interval(right, ranges)
    return _compared(statement.name, low, high, least, most)


def _compared(name, low, high, least, most):
    if name in ("Ne", "Ge", "Gt"):
        found = _compared({"Ne": "Eq", "Ge": "Lt", "Gt": "Le"}[name], low, high, least, most)
        return None if found is None else not found
    if name == "Eq":
        if low == high == least == most:
            return True
        return False if high < least or low > most else None
    if name == "Lt":
        return True if high < least else False if low >= most else None
    return True if high <= least else False if low > most else None
