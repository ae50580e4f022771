"""Which expression gives a row of numbers: one number for each assignment of sizes that an operator was tried with.

Tried in this order: what the arguments already say (a size, a number); products of sizes and what is left of them; sums
with integer factors; floor divisions; the larger or smaller of two. An answer is right for every number of the row.
"""

import itertools
import math
from fractions import Fraction

from .expressions import Poly, constant, expression, floordiv, largest, smallest, value_of

_MOST_FACTORS = 5


class Row:
    """The numbers, with the assignments that they belong to, and the expressions that may occur in the answer."""

    def __init__(self, numbers, assignments, parts, symbols):
        kept = [(n, a) for n, a in zip(numbers, assignments, strict=True) if n is not None]
        self.numbers, self.assignments = [n for n, _ in kept], [a for _, a in kept]
        self.parts = {}
        for part in parts:
            if isinstance(part, Poly) and not part.is_number and part not in self.parts:
                self.parts[part] = self.values(part)
        self.symbols = [expression(s) for s in symbols]

    def values(self, expr):
        """The numbers of an expression."""
        return [value_of(expr, a) for a in self.assignments]

    def fits(self, expr):
        """Whether an expression gives the row."""
        return self.values(expr) == self.numbers


def find(row):
    """The expression, or None."""
    first = row.numbers[0]
    if all(n == first for n in row.numbers):
        return constant(first)
    for part, values in row.parts.items():
        if values == row.numbers:
            return part
    for attempt in (_product, _sum, _quotient, _extreme):
        found = attempt(row)
        if found is not None:
            return found
    return None


def _product(row):
    """A number times a product of parts, or what is left of it after a division."""
    if 0 in row.numbers:
        return None
    parts = list(row.parts.items())[:10]
    for count in range(1, min(_MOST_FACTORS, len(parts)) + 1):
        for chosen in itertools.combinations_with_replacement(parts, count) if count < 3 else \
                itertools.combinations(parts, count):
            product = [math.prod(values[k] for _, values in chosen) for k in range(len(row.numbers))]
            if 0 in product:
                continue
            ratio = Fraction(row.numbers[0], product[0])
            if all(n * ratio.denominator == p * ratio.numerator
                   for n, p in zip(row.numbers, product, strict=True)):
                found = constant(ratio.numerator)
                for part, _ in chosen:
                    found = found * part
                return floordiv(found, constant(ratio.denominator))
    return None


def _sum(row):
    """number + factor * part + ..., with integer factors; the parts are symbols, then what the arguments say."""
    for parts in (row.symbols, list(row.parts)[:6], _squares(row.symbols)):
        columns = [[1] * len(row.numbers), *(row.values(p) for p in parts)]
        if not parts or len(columns) + 1 >= len(row.numbers):
            continue
        factors = _solved(columns, row.numbers)
        if factors is not None and all(f.denominator == 1 for f in factors):
            found = constant(int(factors[0]))
            for factor, part in zip(factors[1:], parts, strict=True):
                found = found + constant(int(factor)) * part
            if row.fits(found):
                return found
    return None


def _squares(symbols):
    return [*symbols, *(a * b for a, b in itertools.combinations_with_replacement(symbols, 2))] \
        if len(symbols) <= 2 else []


def _solved(columns, numbers):
    """Factors with which columns add up to numbers (exact elimination), or None; 0 for those that nothing decides."""
    rows = [[Fraction(c[k]) for c in columns] + [Fraction(n)] for k, n in enumerate(numbers)]
    n, pivots, at = len(columns), [], 0
    for column in range(n):
        pivot = next((k for k in range(at, len(rows)) if rows[k][column]), None)
        if pivot is None:
            continue
        rows[at], rows[pivot] = rows[pivot], rows[at]
        rows[at] = [x / rows[at][column] for x in rows[at]]
        for k, other in enumerate(rows):
            if k != at and other[column]:
                rows[k] = [x - other[column] * y for x, y in zip(other, rows[at], strict=True)]
        pivots.append(column)
        at += 1
    if any(r[n] for r in rows[at:]):
        return None
    factors = [Fraction(0)] * n
    for k, column in enumerate(pivots):
        factors[column] = rows[k][n]
    return factors


def _quotient(row):
    """(factor * part + offset) // divisor."""
    for part, values in [*((s, row.values(s)) for s in row.symbols), *row.parts.items()]:
        pairs = sorted(set(zip(values, row.numbers, strict=True)))
        if len(pairs) < 4 or len({v for v, _ in pairs}) < len(pairs):
            continue
        for slope in _slopes(pairs):
            found = _with_offset(part, pairs, slope)
            if found is not None and row.fits(found):
                return found
    return None


def _slopes(pairs):
    """Slopes that the two ends of a row allow, simplest first."""
    (a, m), (b, n) = pairs[0], pairs[-1]
    exact = Fraction(n - m, b - a)
    found = []
    for most in (8, 64, 512):
        slope = exact.limit_denominator(most)
        if slope > 0 and slope not in found:
            found.append(slope)
    return found


def _with_offset(part, pairs, slope):
    p, q = slope.numerator, slope.denominator
    least = max(q * n - p * v for v, n in pairs)
    most = min(q * n - p * v + q - 1 for v, n in pairs)
    if least > most:
        return None
    return floordiv(constant(p) * part + constant(least), constant(q))


def _extreme(row):
    """The larger or smaller of two: parts, sums of one symbol and a number, numbers."""
    candidates = dict(row.parts)
    for symbol in row.symbols:
        values = row.values(symbol)
        for n, v in zip(row.numbers, values, strict=True):
            shifted = symbol + constant(n - v)
            if abs(n - v) < 1024:
                candidates[shifted] = row.values(shifted)
    for n in set(row.numbers):
        if abs(n) < 1024:
            candidates[constant(n)] = [n] * len(row.numbers)
    for choose, extreme in ((min, smallest), (max, largest)):
        below = [(e, v) for e, v in candidates.items()
                 if all(choose(x, n) == n for x, n in zip(v, row.numbers, strict=True))]
        for (a, x), (b, y) in itertools.combinations(below, 2):
            if [choose(i, j) for i, j in zip(x, y, strict=True)] == row.numbers:
                return extreme(a, b)
    return None
