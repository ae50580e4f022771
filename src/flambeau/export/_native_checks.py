"""What an exported program asks of its inputs' sizes, as instructions: InputChecks without Python."""

from .._graph.words import Numbered
from .._symbolic.expressions import Call, Poly, Symbol, told
from .._symbolic.statements import INFINITE, Relation
from ._checks import lone

#: what expressions of sizes are made of -> its name in native/programs/numbers.cpp
_FUNCTIONS = {"FloorDiv": "floordiv", "Mod": "mod", "Max": "sym_max", "Min": "sym_min", "Abs": "abs", "IntPow": "pow",
              "TrueDiv": "truediv", "Add": "add", "Sub": "sub", "Mul": "mul", "Pow": "pow", "FloatFloorDiv": "floordiv",
              "FloatMod": "mod", "Neg": "neg", "ToFloat": "sym_float", "TruncToInt": "trunc", "FloorToInt": "floor",
              "CeilToInt": "ceil", "RoundToInt": "round", "Sqrt": "sqrt", "Where": "sym_ite", "FloatMax": "sym_max",
              "FloatMin": "sym_min", "Lshift": "lshift", "Rshift": "rshift", "BitAnd": "and_", "BitOr": "or_",
              "BitXor": "xor", "BoolToInt": "pos", "Eq": "eq", "Ne": "ne", "Lt": "lt", "Le": "le", "Gt": "gt",
              "Ge": "ge", "And": "and_", "Or": "or_", "Not": "sym_not"}


class SizeChecks:
    """Writes them into a routine, whose first registers are the inputs: (name, what is asked of it) of each."""

    def __init__(self, routine, checks, inputs):
        self.routine, self.checks, self.inputs = routine, checks, inputs
        self.symbols = {}

    def write(self):
        """All checks."""
        number, check, later = self.routine.number, self.routine.check, []
        for k, (name, what) in enumerate(self.inputs):
            given = Numbered("register", k)
            sizes = [(name, what, given)] if isinstance(what, Poly) else [
                (f"{name}.shape[{d}]", expr, number("size", given, d)) for d, expr in enumerate(what or ())]
            for where, expr, size in sizes:
                symbol = lone(expr)
                if symbol is not None and symbol not in self.symbols:
                    self.symbols[symbol] = size, where
                else:
                    later.append((where, expr, size))
        for where, expr, size in later:
            self._solve(where, expr, size)
        for where, expr, size in later:
            wanted = self._number(expr)
            text = f"{where} must be {told(expr)}, got {{}}" if expr.is_number else \
                f"{where} must be {told(expr)}, which is {{}} here, got {{}}"
            check(number("eq", wanted, size), text, *([size] if expr.is_number else [wanted, size]))
        for symbol, (size, where) in self.symbols.items():
            span = self.checks.ranges.get(symbol)
            if span is None:
                continue
            text = f"{where}: {told(symbol)} must be in {told(span)}, got {{}}"
            if span.lower != -INFINITE:
                check(number("ge", size, int(span.lower)), text, size)
            if span.upper != INFINITE:
                check(number("le", size, int(span.upper)), text, size)
        for guard in self.checks.guards:
            check(self._number(guard), f"the program is for sizes with {told(guard)}")

    def _solve(self, where, expr, size):
        """A symbol that only occurs in a sum or a product with numbers."""
        unknown = expr.free_symbols - self.symbols.keys()
        if len(unknown) != 1:
            return
        symbol, = unknown
        factor, offset = expr.terms.get(((symbol, 1),), 0), expr.terms.get((), 0)
        if not factor:
            raise NotImplementedError(f"{where} is {told(expr)}, from which {told(symbol)} cannot be found")
        number = self.routine.number
        rest = number("sub", size, offset)
        self.routine.check(number("eq", number("mod", rest, factor), 0),
                           f"{where} must be {told(expr)} of an integer, got {{}}", size)
        self.symbols[symbol] = number("floordiv", rest, factor), where

    def _number(self, x):
        """An expression or a statement as an operand."""
        number = self.routine.number
        if isinstance(x, (bool, int, float)):
            return x
        if isinstance(x, Symbol):
            if x not in self.symbols:
                raise NotImplementedError(f"the size {told(x)} is no size of an input")
            return self.symbols[x][0]
        if isinstance(x, Poly):
            return self._sum(x)
        name = _FUNCTIONS.get(x.name)
        if name is None:
            raise NotImplementedError(f"a size is computed by {x.name}")
        parts = [x.left, x.right] if isinstance(x, Relation) else list(x.args)
        operands = [self._number(part) for part in parts]
        if len(operands) > 2 and name != "sym_ite":
            while len(operands) > 1:
                operands[:2] = [number(name, *operands[:2])]
            return operands[0]
        return number(name, *operands) if isinstance(x, (Call, Relation)) or len(operands) == 2 or name == "sym_not" \
            else operands[0]

    def _sum(self, x):
        if x.is_number:
            return int(x)
        total = None
        for monomial, factor in x.terms.items():
            product = None
            for atom, power in monomial:
                one = self._number(atom)
                one = one if power == 1 else self.routine.number("pow", one, power)
                product = one if product is None else self.routine.number("mul", product, one)
            if product is None:
                product = factor
            elif factor != 1:
                product = self.routine.number("mul", product, factor)
            total = product if total is None else self.routine.number("add", total, product)
        return total
