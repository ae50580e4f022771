"""Conditions on arguments in files: Python's text of a comparison, in which L['x'].size()[0] is a size of an argument.
They are parsed as data."""

import ast

from .._shown import shown
from .._symbolic.expressions import Call, Poly, atom, constant, floordiv, largest, mod, smallest
from .._symbolic.statements import RELATIONS, Logic, Relation
from ..utils import _pytree
from ._checks import lone
from ._expressions import parsed

_COMPARED = {ast.Eq: "Eq", ast.NotEq: "Ne", ast.Lt: "Lt", ast.LtE: "Le", ast.Gt: "Gt", ast.GtE: "Ge"}
_WHOLE = {ast.Add: Poly.__add__, ast.Sub: Poly.__sub__, ast.Mult: Poly.__mul__, ast.FloorDiv: floordiv, ast.Mod: mod}
_FLOATS = {ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.Div: "TrueDiv", ast.Pow: "Pow", ast.Mod: "FloatMod",
           ast.FloorDiv: "FloatFloorDiv"}
_CALLED = {"max": largest, "min": smallest, "Max": largest, "Min": smallest, "FloorDiv": floordiv, "Mod": mod,
           "PythonMod": mod}
_MOST_POWER, _MOST_TERMS = 64, 4096


class Arguments:
    """The leaves of a program's arguments, by the texts that name them: L['x'], L['d']['a'], L['xs'][0]."""

    def __init__(self, names, in_spec):
        leaves = iter(range(in_spec.num_leaves))
        args, kwargs = _pytree.tree_unflatten(list(leaves), in_spec)
        names = list(names or [f"arg_{k}" for k in range(len(args))])
        self.by_name = dict(zip(names, (*args, *kwargs.values())))
        self.count = in_spec.num_leaves
        self.texts = {}
        for name, tree in self.by_name.items():
            for path, leaf in _pytree.tree_flatten_with_path(tree)[0]:
                self.texts[leaf] = f"L[{name!r}]{_pytree.keystr(path)}"

    def find(self, keys):
        """The number of the leaf at a path, or None."""
        name, *rest = keys
        if name == "flat_args" and name not in self.by_name and len(rest) == 1:
            return rest[0] if isinstance(rest[0], int) and 0 <= rest[0] < self.count else None
        if name not in self.by_name and rest:  # *name, **name
            name, *rest = f"{name}_{rest[0]}" if isinstance(rest[0], int) else rest[0], *rest[1:]
        found = self.by_name.get(name)
        for key in rest:
            try:
                found = getattr(found, key[1]) if isinstance(key, tuple) else found[key]
            except (LookupError, TypeError, AttributeError):
                return None
        return found if isinstance(found, int) else None


# ---- reading ---------------------------------------------------------------------------------------------------------

def read(text, arguments, values):
    """The statement of a text. values: of each leaf, what its sizes are as expressions, or the Poly of an open int.

    NotImplementedError for what has no such form here.
    """
    return _Reader(text, arguments, values).truth(parsed(text))


class _Reader:
    def __init__(self, text, arguments, values):
        self.text, self.arguments, self.values = text, arguments, values

    def refuse(self):
        raise NotImplementedError(f"export.load: the program's condition {shown(self.text)} is not understood")

    def truth(self, node):
        if isinstance(node, ast.BoolOp):
            return Logic("And" if isinstance(node.op, ast.And) else "Or", *map(self.truth, node.values))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return Logic("Not", self.truth(node.operand))
        if isinstance(node, ast.Constant) and isinstance(node.value, bool):
            return node.value
        if not isinstance(node, ast.Compare) or not all(type(op) in _COMPARED for op in node.ops):
            return self.refuse()
        sides = list(map(self.number, (node.left, *node.comparators)))
        found = [Relation(_COMPARED[type(op)], a, b) for op, a, b in zip(node.ops, sides, sides[1:])]
        return found[0] if len(found) == 1 else Logic("And", *found)

    def number(self, node):
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return constant(int(node.value)) if isinstance(node.value, int) else node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self.number(node.operand)
            return -value if isinstance(value, (Poly, float)) else Call("Neg", value)
        if isinstance(node, ast.BinOp):
            return self.computed(node.op, self.number(node.left), self.number(node.right))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLED:
            args = list(map(self.number, node.args))
            if all(isinstance(a, Poly) for a in args) and len(args) >= 2 and not node.keywords:
                return self.safely(_CALLED[node.func.id], *args)
        return self.source(node)

    def computed(self, op, a, b):
        if isinstance(op, ast.Pow) and isinstance(a, Poly) and isinstance(b, Poly):
            if b.number is not None and 0 <= b.number <= _MOST_POWER and len(a.terms) == 1:
                found = constant(1)
                for _ in range(b.number):
                    found = found * a
                return found
            return atom(Call("IntPow", a, b))
        if isinstance(a, Poly) and isinstance(b, Poly) and type(op) in _WHOLE:
            if len(a.terms) * len(b.terms) > _MOST_TERMS:
                self.refuse()
            return self.safely(_WHOLE[type(op)], a, b)
        if type(op) not in _FLOATS:
            self.refuse()
        return Call(_FLOATS[type(op)], a, b)

    def safely(self, function, *args):
        try:
            return function(*args)
        except (ZeroDivisionError, TypeError):
            return self.refuse()

    def source(self, node):
        """A size of an argument, or an argument that is a number."""
        dim = None
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call):
            dim, node = node.slice, node.value
            called = node.func.attr if isinstance(node.func, ast.Attribute) else None
            if called != "size" or node.args or not isinstance(dim, ast.Constant):
                self.refuse()
            dim, node = dim.value, node.func.value
        leaf = self.arguments.find(self.path(node))
        value = self.values[leaf] if leaf is not None else None
        if dim is None:
            return value if isinstance(value, Poly) else self.refuse()
        if not isinstance(value, tuple) or not isinstance(dim, int) or not 0 <= dim < len(value) or not all(
                isinstance(v, Poly) for v in value):
            self.refuse()
        return value[dim]

    def path(self, node):
        keys = []
        while not isinstance(node, ast.Name):
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
                keys.insert(0, node.slice.value)
            elif isinstance(node, ast.Attribute):
                keys.insert(0, ("attribute", node.attr))
            else:
                self.refuse()
            node = node.value
        return keys if node.id == "L" and keys and isinstance(keys[0], str) else self.refuse()


# ---- writing ---------------------------------------------------------------------------------------------------------

def write(statement, arguments, values):
    """The text of a statement; None where a symbol in it is no size of an argument."""
    sources = {}
    for leaf, value in enumerate(values):
        text = arguments.texts[leaf]
        if isinstance(value, Poly):
            _note(sources, text, value)
        elif value and isinstance(value[0], Poly):
            for d, expr in enumerate(value):
                _note(sources, f"{text}.size()[{d}]", expr)
    return _text(statement, sources) if statement.free_symbols <= sources.keys() else None


def _note(sources, text, expr):
    """Says by which text a symbol is found, where an expression is of one symbol, as 2*s + 1 is."""
    symbol = lone(expr)
    if symbol is not None:
        sources[symbol] = text
    elif len(expr.free_symbols) == 1:
        symbol, = expr.free_symbols
        factor, offset = expr.terms.get(((symbol, 1),), 0), expr.terms.get((), 0)
        if factor and len(expr.terms) <= 2:
            sources.setdefault(symbol, f"(({text} - {offset}) // {factor})")


_INFIX = {"FloorDiv": "//", "Mod": "%", "TrueDiv": "/", "Add": "+", "Sub": "-", "Mul": "*", "Pow": "**", "IntPow": "**"}
_WORDS = {"Max": "max", "Min": "min", "FloatMax": "max", "FloatMin": "min", "Abs": "abs", "ToFloat": "float"}


def _text(x, sources):
    def of(y):
        return _text(y, sources)

    if isinstance(x, (bool, int, float)):
        return repr(x)
    if isinstance(x, Relation):
        return f"{of(x.left)} {RELATIONS[x.name][2]} {of(x.right)}"
    if isinstance(x, Logic):
        parts = [f"({of(a)})" for a in x.args]
        return f"not {parts[0]}" if x.name == "Not" else f" {x.name.lower()} ".join(parts)
    if isinstance(x, Poly):
        terms = ["*".join([*([str(c)] if c != 1 or not m else []), *(
            of(one) if power == 1 else f"{of(one)}**{power}" for one, power in m)]) for m, c in x.terms.items()]
        return terms[0] if len(terms) == 1 else f"({' + '.join(terms) or '0'})"
    if isinstance(x, Call):
        if x.name in _INFIX:
            return f"({of(x.args[0])} {_INFIX[x.name]} {of(x.args[1])})"
        return f"{_WORDS.get(x.name, x.name)}({', '.join(map(of, x.args))})"
    return sources[x]
