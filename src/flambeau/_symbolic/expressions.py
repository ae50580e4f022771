"""Expressions of sizes: integer polynomials in symbols and in calls such as (s0//2), with one normal form.

Two expressions are equal exactly if their normal forms are; that is what replacing, comparing and printing use. What a
polynomial cannot say (floor division, remainders, extremes, everything of floats) is a Call, which a polynomial treats
like a symbol of its own.
"""

import math
import operator


class Symbol:
    """A size that is open; two of one name are the same."""

    __slots__ = ("name",)

    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        return isinstance(other, Symbol) and self.name == other.name

    def __hash__(self):
        return hash(self.name)

    def __repr__(self):
        return self.name

    def evaluate(self, values):
        """Its number."""
        return values[self]

    @property
    def free_symbols(self):
        """{itself}."""
        return {self}


class Call:
    """A function of expressions: name is a key of FUNCTIONS."""

    __slots__ = ("_hash", "_text", "args", "name")

    def __init__(self, name, *args):
        self.name, self.args = name, args
        self._hash, self._text = hash((name, args)), None

    def __eq__(self, other):
        return isinstance(other, Call) and self._hash == other._hash and self.name == other.name \
            and self.args == other.args

    def __hash__(self):
        return self._hash

    def __repr__(self):
        if self._text is None:  # kept: products are sorted by it
            texts = list(map(repr, self.args))
            if self.name in _INFIX:
                left, right = (f"({text})" if " " in text and text[0] != "(" else text for text in texts)
                self._text = f"({left}{_INFIX[self.name]}{right})"
            else:
                self._text = f"{self.name}({', '.join(texts)})"
        return self._text

    def evaluate(self, values):
        """Its number where symbols have these."""
        return FUNCTIONS[self.name](*(value_of(a, values) for a in self.args))

    @property
    def free_symbols(self):
        """The symbols in it."""
        return set().union(*(free_symbols(a) for a in self.args))


_INFIX = {"FloorDiv": "//", "TrueDiv": "/", "Add": " + ", "Sub": " - ", "Mul": "*", "Pow": "**"}
#: what a Call computes; those of sympy's and PyTorch's names have their meaning
FUNCTIONS = {
    "FloorDiv": operator.floordiv, "Mod": operator.mod, "Max": max, "Min": min, "Abs": abs, "IntPow": operator.pow,
    "TrueDiv": operator.truediv, "Add": operator.add, "Sub": operator.sub, "Mul": operator.mul, "Pow": operator.pow,
    "FloatFloorDiv": operator.floordiv, "FloatMod": operator.mod, "Neg": operator.neg, "ToFloat": float,
    "TruncToInt": math.trunc, "FloorToInt": math.floor, "CeilToInt": math.ceil, "RoundToInt": round, "Round": round,
    "Sqrt": math.sqrt, "Where": lambda b, t, f: t if b else f, "FloatMax": max, "FloatMin": min,
    "Exp": math.exp, "Log": math.log, "Log2": math.log2, "Sin": math.sin, "Cos": math.cos, "Tan": math.tan,
    "Sinh": math.sinh, "Cosh": math.cosh, "Tanh": math.tanh, "Asin": math.asin, "Acos": math.acos, "Atan": math.atan,
    "Lshift": operator.lshift, "Rshift": operator.rshift, "BitAnd": operator.and_, "BitOr": operator.or_,
    "BitXor": operator.xor, "BoolToInt": int,
}


class Poly:
    """A sum of integer multiples of products: {((atom, power), ...): factor}; atoms are Symbols and Calls."""

    __slots__ = ("_hash", "_text", "terms")

    def __init__(self, terms):
        self.terms = {m: c for m, c in terms.items() if c}
        self._hash = self._text = None

    def __eq__(self, other):
        return isinstance(other, Poly) and self.terms == other.terms

    def __hash__(self):
        if self._hash is None:
            self._hash = hash(frozenset(self.terms.items()))
        return self._hash

    def __repr__(self):
        if self._text is None:
            text = ""
            for monomial in sorted(self.terms, key=_order):
                text = _with_term(text, self.terms[monomial], monomial)
            self._text = text or "0"
        return self._text

    @property
    def number(self):
        """Its value where it is a number, else None."""
        if not self.terms:
            return 0
        return self.terms.get((), None) if len(self.terms) == 1 else None

    @property
    def is_number(self):
        """Whether no symbol is in it."""
        return self.number is not None

    def __int__(self):
        if self.number is None:
            raise TypeError(f"{told(self)} is no number")
        return self.number

    @property
    def free_symbols(self):
        """The symbols in it."""
        return set().union(*(atom.free_symbols for m in self.terms for atom, _ in m))

    def evaluate(self, values):
        """Its number where symbols have these."""
        total = 0
        for monomial, factor in self.terms.items():
            for atom, power in monomial:
                factor *= atom.evaluate(values) ** power
            total += factor
        return total

    def __add__(self, other):
        terms = dict(self.terms)
        for m, c in other.terms.items():
            terms[m] = terms.get(m, 0) + c
        return Poly(terms)

    def __neg__(self):
        return Poly({m: -c for m, c in self.terms.items()})

    def __sub__(self, other):
        return self + -other

    def __mul__(self, other):
        terms = {}
        for m, c in self.terms.items():
            for n, d in other.terms.items():
                product = _product(m, n)
                terms[product] = terms.get(product, 0) + c * d
        return Poly(terms)


def _order(monomial):
    return -sum(power for _, power in monomial), [(repr(atom), power) for atom, power in monomial]


def _with_term(text, factor, monomial):
    names = [repr(atom) if power == 1 else f"{atom!r}**{power}" for atom, power in monomial]
    size = abs(factor)
    body = "*".join(([str(size)] if size != 1 or not names else []) + names)
    if not text:
        return f"-{body}" if factor < 0 else body
    return f"{text} {'-' if factor < 0 else '+'} {body}"


def _product(m, n):
    if not m or not n:
        return m or n
    powers = dict(m)
    for atom, power in n:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items(), key=lambda item: repr(item[0])))


def told(x):
    """An expression or statement in a message: its text, cut where it is long.

    >>> from flambeau._symbolic.expressions import Symbol, atom, told
    >>> told(atom(Symbol("s0")))
    's0'
    """
    text = repr(x)
    return text if len(text) <= 200 else f"{text[:200]}..."


def constant(number):
    """An integer as an expression."""
    return Poly({(): number})


def atom(x):
    """A Symbol or Call as a polynomial."""
    return Poly({((x, 1),): 1})


def expression(x):
    """An int, Symbol, Call of integers or Poly as a Poly."""
    if isinstance(x, Poly):
        return x
    return constant(int(x)) if isinstance(x, int) else atom(x)


def value_of(x, values):
    """The number of an expression, or a number itself."""
    return x if isinstance(x, (int, float)) else x.evaluate(values)


def free_symbols(x):
    """The symbols of an expression or number."""
    return set() if isinstance(x, (int, float)) else x.free_symbols


def substitute(x, replacements):
    """An expression with other expressions in the place of symbols: {Symbol: Poly}."""
    if isinstance(x, (int, float)) or not replacements or not (free_symbols(x) & replacements.keys()):
        return x
    if isinstance(x, Symbol):
        return replacements.get(x, atom(x))
    if hasattr(x, "substituted"):  # a statement
        return x.substituted(replacements)
    if isinstance(x, Call):
        return _rebuilt(x.name, [substitute(a, replacements) for a in x.args])
    total = constant(0)
    for monomial, factor in x.terms.items():
        product = constant(factor)
        for one, power in monomial:
            part = expression(substitute(one, replacements))
            for _ in range(power):
                product = product * part
        total = total + product
    return total


def _rebuilt(name, args):
    make = {"FloorDiv": floordiv, "Mod": mod, "Max": largest, "Min": smallest}.get(name)
    if make is not None:
        return make(*args)
    if all(isinstance(a, (int, float)) or getattr(a, "is_number", False) for a in args):
        found = FUNCTIONS[name](*(value_of(a, {}) for a in args))
        return constant(found) if isinstance(found, int) else found
    return Call(name, *args)


# ---- what has a normal form of its own -------------------------------------------------------------------------------

def _split(p, divides):
    """The terms of a polynomial for which divides(term) holds, and the rest."""
    taken = {m: c for m, c in p.terms.items() if divides(m, c)}
    return Poly(taken), Poly({m: c for m, c in p.terms.items() if m not in taken})


def _over(m, n):
    """Monomial m over monomial n, or None where n does not divide it."""
    powers = dict(m)
    for one, power in n:
        left = powers.get(one, 0) - power
        if left < 0:
            return None
        powers[one] = left
    return tuple((one, power) for one, power in m if powers[one] for power in (powers[one],))


def floordiv(a, b):
    """a // b: what divides is taken out, what is left stays a Call."""
    if b.number == 0:
        raise ZeroDivisionError("integer division or modulo by zero")
    if a.is_number and b.is_number:
        return constant(a.number // b.number)
    if len(b.terms) != 1:
        return constant(1) if a == b else atom(Call("FloorDiv", a, b))
    (n, d), = b.terms.items()
    exact, rest = _split(a, lambda m, c: c % d == 0 and _over(m, n) is not None)
    whole = Poly({_over(m, n): c // d for m, c in exact.terms.items()})
    if not rest.terms:
        return whole
    common = math.gcd(d, *rest.terms.values())
    if common > 1:
        rest = Poly({m: c // common for m, c in rest.terms.items()})
        b = Poly({n: d // common})
    if rest.is_number and b.is_number:
        return whole + constant(rest.number // b.number)
    return whole + atom(Call("FloorDiv", rest, b))


def mod(a, b):
    """a % b."""
    if b.number == 0:
        raise ZeroDivisionError("integer division or modulo by zero")
    if a.is_number and b.is_number:
        return constant(a.number % b.number)
    if len(b.terms) == 1:
        (n, d), = b.terms.items()
        _, a = _split(a, lambda m, c: c % d == 0 and _over(m, n) is not None)
        if a.is_number and b.is_number:
            return constant(a.number % b.number)
    return constant(0) if a == b or not a.terms else atom(Call("Mod", a, b))


def _extreme(name, choose, args):
    found, numbers = [], []
    for a in args:
        inner = _call(a)
        items = inner.args if inner is not None and inner.name == name else (a,)
        for item in items:
            if item.is_number:
                numbers.append(item.number)
            elif item not in found:
                found.append(item)
    if numbers:
        found.append(constant(choose(numbers)))
    return found[0] if len(found) == 1 else atom(Call(name, *sorted(found, key=repr)))


def _call(p):
    """The Call that a polynomial is, or None."""
    if len(p.terms) == 1:
        (m, c), = p.terms.items()
        if c == 1 and len(m) == 1 and m[0][1] == 1 and isinstance(m[0][0], Call):
            return m[0][0]
    return None


def largest(*args):
    """The largest of several."""
    return _extreme("Max", max, args)


def smallest(*args):
    """The smallest of several."""
    return _extreme("Min", min, args)
