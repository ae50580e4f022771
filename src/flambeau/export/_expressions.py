"""Sizes and conditions in files: expressions as text in the form of sympy's `srepr`, which is parsed as data.

    Add(Mul(Integer(2), Symbol('s0', positive=True, integer=True)), Integer(-1))        2*s0 - 1

A text is parsed by Python's own parser and evaluated by the tables here; a name that is in none is a ValueError.
"""

import ast

from .._shown import shown
from .._symbolic.expressions import (
    Call,
    Poly,
    Symbol,
    atom,
    constant,
    floordiv,
    largest,
    mod,
    smallest,
)
from .._symbolic.statements import Logic, Relation
from ._checks import lone

_MOST_TERMS = 4096  # of a product: sums multiplied with each other grow without bound
_MOST_POWER = 64
_LONGEST = 1 << 16

#: {name in a file: kind of relation}
_COMPARED = {"Equality": "Eq", "Unequality": "Ne", "StrictLessThan": "Lt", "LessThan": "Le",
             "StrictGreaterThan": "Gt", "GreaterThan": "Ge"}
#: {name in a file: Call} of the functions that mean the same in both
_CALLS = {"Abs": "Abs", "PowByNatural": "IntPow", "IntTrueDiv": "TrueDiv", "FloatTrueDiv": "TrueDiv",
          "FloatPow": "Pow", "ToFloat": "ToFloat", "TruncToInt": "TruncToInt", "FloorToInt": "FloorToInt",
          "CeilToInt": "CeilToInt", "RoundToInt": "RoundToInt", "RoundDecimal": "Round", "Where": "Where",
          "LShift": "Lshift", "RShift": "Rshift", "BitwiseFn_bitwise_and": "BitAnd",
          "BitwiseFn_bitwise_or": "BitOr", "BitwiseFn_bitwise_xor": "BitXor",
          **{f"OpaqueUnaryFn_{name.lower()}": name for name in (
              "Sqrt", "Exp", "Log", "Log2", "Sin", "Cos", "Tan", "Sinh", "Cosh", "Tanh", "Asin", "Acos", "Atan")}}
#: Calls whose results are whole numbers
_WHOLE = {"Abs", "IntPow", "TruncToInt", "FloorToInt", "CeilToInt", "RoundToInt", "Lshift", "Rshift", "BitAnd", "BitOr",
          "BitXor"}


# ---- writing ---------------------------------------------------------------------------------------------------------

class Names:
    """How symbols are written: env knows their ranges, and `floats` are those that stand for the value of a float."""

    def __init__(self, env, floats=frozenset()):
        self.env, self.floats = env, floats

    def name(self, symbol):
        """Its name: floats that values decide have a letter of their own there."""
        return f"zuf{symbol.name[1:]}" if symbol in self.floats else symbol.name

    def text(self, symbol):
        """Its text. Sizes are positive there: that they may be 0 is said by a range."""
        if symbol in self.floats:
            return f"Symbol('{self.name(symbol)}')"
        low, _ = self.env.var_to_range.get(symbol, (0, None))
        positive = "positive=True, " if low >= 0 and not self.env.is_unbacked_symint(symbol) else ""
        return f"Symbol('{symbol.name}', {positive}integer=True)"


def written(x, names):
    """The text of an expression or statement."""
    if isinstance(x, bool):
        return "true" if x else "false"
    if isinstance(x, int):
        return f"Integer({x})"
    if isinstance(x, float):
        return f"Float('{x!r}', precision=53)"
    if isinstance(x, Poly):
        return _sum(x, names)
    if isinstance(x, Symbol):
        return names.text(x)
    if isinstance(x, Relation):
        name = next(name for name, kind in _COMPARED.items() if kind == x.name)
        return f"{name}({written(x.left, names)}, {written(x.right, names)})"
    if isinstance(x, Logic):
        return f"{x.name}({', '.join(written(a, names) for a in x.args)})"
    symbol = lone(x.args[0]) if x.name == "ToFloat" else None
    if symbol in names.floats:
        return names.text(symbol)
    return f"{_name_of(x)}({', '.join(written(a, names) for a in x.args)})"


def _sum(p, names):
    terms = []
    for monomial, factor in p.terms.items():
        factors = [f"Integer({factor})"] if factor != 1 or not monomial else []
        for one, power in monomial:
            text = written(one, names)
            factors.append(text if power == 1 else f"Pow({text}, Integer({power}))")
        terms.append(factors[0] if len(factors) == 1 else f"Mul({', '.join(factors)})")
    return "Integer(0)" if not terms else terms[0] if len(terms) == 1 else f"Add({', '.join(terms)})"


def _name_of(call):
    fixed = {"FloorDiv": "FloorDiv", "Mod": "PythonMod", "Max": "Max", "Min": "Min", "FloatMax": "Max",
             "FloatMin": "Min", "Add": "Add", "Mul": "Mul",
             "TrueDiv": "IntTrueDiv" if all(isinstance(a, (int, Poly)) for a in call.args) else "FloatTrueDiv"}
    found = fixed.get(call.name) or next((name for name, ours in _CALLS.items() if ours == call.name), None)
    if found is None:
        raise NotImplementedError(f"export.save: the sizes of the program are computed by {call.name}, which files "
                                  "have no word for")
    return found


# ---- reading ---------------------------------------------------------------------------------------------------------

def parsed(text):
    """The syntax tree of one expression."""
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise ValueError(f"export.load: {shown(text)} is no expression of sizes")
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ValueError(f"export.load: {shown(text)} is no expression of sizes") from None


def read(text, symbol):
    """The expression of a text: a Poly of whole numbers, a Call or float of floats, a bool or statement of truths.

    symbol      a function from a name to (its Symbol, whether it stands for the value of a float)
    """
    return _Reader(text, symbol).of(parsed(text))


class _Reader:
    def __init__(self, text, symbol):
        self.text, self.symbol = text, symbol

    def refuse(self, what):
        raise ValueError(f"export.load: {what} in the expression {shown(self.text)}")

    def of(self, node):
        """The value of a part of the tree."""
        if isinstance(node, ast.Name) and node.id in ("true", "false", "True", "False"):
            return node.id in ("true", "True")
        if isinstance(node, ast.Constant) and isinstance(node.value, bool):
            return node.value
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            self.refuse("something else than a function")
        name, args = node.func.id, node.args
        if name in ("Integer", "Float", "Rational", "Symbol", "Dummy"):
            return self.leaf(name, args)
        if node.keywords and name not in ("Max", "Min", "Add", "Mul"):
            self.refuse(f"an option of {name}")
        return self.call(name, [self.of(a) for a in args])

    def leaf(self, name, args):
        values = [self.plain(a) for a in args]
        if name == "Symbol" and len(values) == 1 and isinstance(values[0], str):
            found, is_float = self.symbol(values[0])
            return Call("ToFloat", atom(found)) if is_float else atom(found)
        if name == "Integer" and len(values) == 1 and isinstance(values[0], int):
            return constant(values[0])
        if name == "Float" and len(values) == 1 and isinstance(values[0], (str, int, float)):
            return float(values[0])
        if name == "Rational" and len(values) == 2 and all(isinstance(v, int) for v in values) and values[1]:
            return values[0] / values[1]
        return self.refuse(f"{name} of something else than a number or name")

    def plain(self, node):
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self.plain(node.operand)
            return -value if isinstance(value, (int, float)) else self.refuse("the negative of a text")
        if not isinstance(node, ast.Constant) or not isinstance(node.value, (str, int, float)):
            self.refuse("something else than a number or name")
        return node.value

    def call(self, name, args):
        """A function of values."""
        if name in _COMPARED and len(args) == 2:
            return Relation(_COMPARED[name], *map(self.number, args))
        if name in ("And", "Or", "Not") and args and (name != "Not" or len(args) == 1):
            if not all(isinstance(a, (bool, Relation, Logic)) for a in args):
                self.refuse(f"{name} of numbers")
            return Logic(name, *args)
        if name == "Where" and len(args) == 3:
            found = Call("Where", args[0], *map(self.number, args[1:]))
            return atom(found) if all(isinstance(a, Poly) for a in args[1:]) else found
        args = list(map(self.number, args))
        if name in ("Add", "Mul") and args:
            return self.joined(name, args)
        if name == "Pow" and len(args) == 2:
            return self.power(*args)
        if name in ("Max", "Min") and args:
            if all(isinstance(a, Poly) for a in args):
                return (largest if name == "Max" else smallest)(*args)
            return self.folded("FloatMax" if name == "Max" else "FloatMin", args)
        if name in ("FloorDiv", "CleanDiv", "CeilDiv", "Mod", "PythonMod") and len(args) == 2:
            return self.divided(name, *args)
        if name == "ModularIndexing" and len(args) == 3:
            return self.divided("Mod", self.divided("FloorDiv", *args[:2]), args[2])
        if name == "Identity" and len(args) == 1:
            return args[0]
        if name in _CALLS and args:
            return self.function(_CALLS[name], args)
        return self.refuse(f"{shown(name)}, which is no function of sizes")

    def number(self, x):
        return x if isinstance(x, (Poly, Call, float)) else self.refuse("a truth in the place of a number")

    def joined(self, name, args):
        if not all(isinstance(a, Poly) for a in args):
            return self.folded(name, args)
        total, *rest = args
        for each in rest:
            if name == "Mul" and len(total.terms) * len(each.terms) > _MOST_TERMS:
                self.refuse("a product of too many terms")
            total = total + each if name == "Add" else total * each
        return total

    def folded(self, name, args):
        total, *rest = args
        for each in rest:
            total = Call(name, total, each)
        return total

    def power(self, base, exponent):
        if isinstance(base, Poly) and isinstance(exponent, Poly):
            if exponent.is_number and 0 <= exponent.number <= _MOST_POWER:
                return self.joined("Mul", [base] * exponent.number) if exponent.number else constant(1)
            if not exponent.is_number:
                return atom(Call("IntPow", base, exponent))
            self.refuse("a power that is negative or too large")
        return Call("Pow", base, exponent)

    def divided(self, name, a, b):
        if not isinstance(a, Poly) or not isinstance(b, Poly):
            return Call("FloatMod" if name in ("Mod", "PythonMod") else "FloatFloorDiv", a, b)
        if b.number == 0:
            self.refuse("a division by zero")
        if name in ("Mod", "PythonMod"):
            return mod(a, b)
        return -floordiv(-a, b) if name == "CeilDiv" else floordiv(a, b)

    def function(self, name, args):
        found = Call(name, *args)
        return atom(found) if name in _WHOLE and (name != "Abs" or isinstance(args[0], Poly)) else found
