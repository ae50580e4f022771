"""Expressions of a program's text as nodes of a graph."""

import ast
import math

from ._compile import dotted
from ._graph import BOOL, FLOAT, INT, NONE, TENSOR, TEXT, Value
from ._graph_types import Type
from ._program import Kind

_BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv",
           ast.Mod: "remainder", ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "__and__", ast.BitOr: "__or__",
           ast.BitXor: "__xor__", ast.LShift: "__lshift__", ast.RShift: "__rshift__"}
_OF_OBJECTS = {"add": "__add__", "sub": "__sub__", "mul": "__mul__", "div": "__truediv__", "floordiv": "__floordiv__",
               "remainder": "__mod__", "pow": "__pow__", "eq": "__eq__", "ne": "__ne__", "lt": "__lt__",
               "le": "__le__", "gt": "__gt__", "ge": "__ge__", "__contains__": "__contains__", "neg": "__neg__"}
_COMPARED = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
             ast.Is: "__is__", ast.IsNot: "__isnot__", ast.In: "__contains__", ast.NotIn: "__contains__"}
_UNARY = {ast.USub: "neg", ast.Not: "__not__", ast.Invert: "bitwise_not"}
_OF_TENSORS = {"shape": ("aten::size", "List[int]"), "ndim": ("aten::dim", "int"), "T": ("aten::numpy_T", "Tensor"),
               "mT": ("aten::mT", "Tensor"), "H": ("aten::matrix_H", "Tensor"), "mH": ("aten::mH", "Tensor"),
               "real": ("aten::real", "Tensor"), "imag": ("aten::imag", "Tensor"), "dtype": ("prim::dtype", "int"),
               "device": ("prim::device", "Device"), "layout": ("prim::layout", "int"),
               "data": ("prim::data", "Tensor"), "grad": ("prim::grad", "Optional[Tensor]"),
               "itemsize": ("prim::itemsize", "int"), "nbytes": ("prim::nbytes", "int"),
               "is_leaf": ("aten::is_leaf", "bool")}


class Several(list):
    """The values of one step, or of a tuple that is taken apart at once."""


class Expressions:
    """Expressions as nodes: `program`, `graph`, `block` (where nodes go), `env` ({local name: Value or Several})."""

    def add(self, kind, inputs, kinds, **attributes):
        """A node; its value, where it makes one."""
        made = self.several(kind, inputs, kinds, **attributes)
        return made[0] if len(made) == 1 else made

    def several(self, kind, inputs, kinds, **attributes):
        """A node; the values that it makes."""
        return Several(self.block.add(kind, list(inputs), kinds, attributes, self._where())._outputs)

    def _where(self):
        return None if self.line is None else f"line {self.line}"

    def any(self, node):
        """The Value of an expression, or Several."""
        return getattr(self, f"_{type(node).__name__.lower()}")(node)

    def value(self, node):
        """The Value of an expression."""
        return self.one(self.any(node))

    def one(self, made):
        """One Value: of several, their tuple."""
        if isinstance(made, Value):
            return made
        parts = [self.one(x) for x in made]
        kinds = ", ".join(str(x.type()) for x in parts) or "()"
        return self.add("prim::TupleConstruct", parts, [Type(f"Tuple[{kinds}]")]) if parts else self.constant(
            None, NONE)

    # ---- constants ---------------------------------------------------------------------------------------------------

    def constant(self, value, kind, name="value"):
        """A constant at the beginning of the graph."""
        if name == "value":
            return self.graph.constant_first(value, kind)
        return self.add("prim::Constant", [], [kind], **{name: value})

    def whole(self, n):
        """A whole number."""
        return self.constant(n, INT)

    def text(self, text):
        """A text."""
        return self.constant(text, TEXT)

    def plain_constant(self, value):
        """A number, a text or None."""
        kinds = {bool: BOOL, int: INT, float: FLOAT, str: TEXT, type(None): NONE, complex: Type("complex")}
        return self.constant(value, kinds[type(value)])

    def _constant(self, node):
        return self.plain_constant(node.value)

    def _name(self, node):
        if node.id in self.env:
            return self.env[node.id]
        if node.id in ("inf", "nan"):
            return self.constant(getattr(math, node.id), FLOAT)
        return self.constant(node.id, Type("function"), "name")

    def _joinedstr(self, node):
        text = "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        parts = [self.value(part.value) for part in node.values if isinstance(part, ast.FormattedValue)]
        return self.add("aten::format", [self.text(text), *parts], [TEXT])

    # ---- containers --------------------------------------------------------------------------------------------------

    def _tuple(self, node):
        return Several([self.any(e) for e in node.elts])

    def _list(self, node):
        parts = [self.value(e) for e in node.elts]
        kinds = {str(x.type()) for x in parts} or {"Tensor"}
        kinds -= {"NoneType"} if len(kinds) > 1 else set()
        kind = kinds.pop() if len(kinds) == 1 else f"Union[{', '.join(sorted(kinds))}]"
        return self.add("prim::ListConstruct", parts, [Type(f"List[{kind}]")])

    def _dict(self, node):
        pairs = [(self.value(k), self.value(v)) for k, v in zip(node.keys, node.values, strict=True)]
        key, value = (str(pairs[0][0].type()), str(pairs[0][1].type())) if pairs else ("str", "Tensor")
        return self.add("prim::DictConstruct", [x for pair in pairs for x in pair], [Type(f"Dict[{key}, {value}]")])

    def _listcomp(self, node):
        return self._comprehended(node, node.elt)

    _generatorexp = _listcomp

    def _dictcomp(self, node):
        return self._comprehended(node, None)

    def _comprehended(self, node, item):
        """A loop that appends to a list, or puts into a dict."""
        made = self.add("prim::ListConstruct" if item is not None else "prim::DictConstruct", [], [TENSOR])
        found = []

        def put(_):
            parts = [self.value(item)] if item is not None else [self.value(node.key), self.value(node.value)]
            found.extend(str(x.type()) for x in parts)
            made._kind = Type(f"List[{found[0]}]" if item is not None else f"Dict[{found[0]}, {found[1]}]")
            self.add("aten::append" if item is not None else "aten::_set_item", [made, *parts],
                     [made._kind] if item is not None else [])

        body = [Then(put)]
        for each in reversed(node.generators):
            for test in reversed(each.ifs):
                body = [ast.If(test, body, [])]
            body = [ast.For(each.target, each.iter, body, [])]
        before = dict(self.env)
        self.body(body)
        self.env = before
        return made

    def _then(self, node):
        node.run(None)

    # ---- operators ---------------------------------------------------------------------------------------------------

    def _binop(self, node):
        return self.binary(node.op, self.value(node.left), self.value(node.right))

    def binary(self, op, left, right, in_place=False):
        """A result of +, - and so on."""
        name = _BINARY[type(op)]
        if name == "remainder" and left.type() == TEXT:
            parts = [right] if right.type().kind() != "TupleType" else self.unpacked(right, 0)
            return self.add("aten::percentFormat", [left, *parts], [TEXT])
        return self.operated(f"{name}_" if in_place and name != "matmul" else name, left, right)

    def operated(self, name, *values):
        """An operator of tensors or numbers, or a method of an object."""
        plain = name.removesuffix("_") if not name.endswith("__") else name
        if plain in _OF_OBJECTS and self.has_method(values[0], _OF_OBJECTS[plain]):
            return self.method_call(values[0], _OF_OBJECTS[plain], list(values[1:]), {})
        if plain in ("eq", "ne") and "ClassType" in [v.type().kind() for v in values]:
            return self.add(f"aten::{plain}", values, [BOOL])
        if TENSOR not in [v.type() for v in values] and values[0].type().kind() == "ListType" and plain in (
                "add", "mul"):
            return self.add(f"aten::{name}", values, [values[0].type()])
        if name == "floordiv" and TENSOR in [v.type() for v in values]:
            name = "floor_divide"
        return self.operator(name, list(values), {})

    def _unaryop(self, node):
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return self.plain_constant(-node.operand.value)
        if isinstance(node.op, ast.UAdd):
            return self.value(node.operand)
        held = self.truth(node.operand) if isinstance(node.op, ast.Not) else self.value(node.operand)
        return self.operated(_UNARY[type(node.op)], held)

    def truth(self, node):
        """The bool that a condition decides by."""
        held = self.value(node)
        return held if held.type() == BOOL else self.add("aten::Bool", [held], [BOOL])

    def _boolop(self, node):
        first, *rest = node.values
        if not rest:
            return self.truth(first)
        def others():
            return self._boolop(ast.BoolOp(node.op, rest))

        if isinstance(node.op, ast.And):
            return self.branches(self.truth(first), others, lambda: self.constant(False, BOOL))
        return self.branches(self.truth(first), lambda: self.constant(True, BOOL), others)

    def _ifexp(self, node):
        return self.branches(self.truth(node.test), lambda: self.value(node.body), lambda: self.value(node.orelse))

    def _compare(self, node):
        if len(node.ops) > 1:
            pairs = zip([node.left, *node.comparators], node.ops, node.comparators)
            return self._boolop(ast.BoolOp(ast.And(), [ast.Compare(a, [op], [b]) for a, op, b in pairs]))
        left, right = self.value(node.left), self.value(node.comparators[0])
        name = _COMPARED[type(node.ops[0])]
        if name == "__contains__":
            found = self.operated(name, right, left)
            return found if isinstance(node.ops[0], ast.In) else self.add("aten::__not__", [found], [BOOL])
        return self.add(f"aten::{name}", [left, right], [BOOL]) if name.startswith("__is") else self.operated(
            name, left, right)

    # ---- attributes and items ----------------------------------------------------------------------------------------

    def _attribute(self, node):
        names = dotted(node)
        if names is not None and names[0] not in self.env:
            if names[0] == "CONSTANTS":
                return self.constant(self.program.constant(names[1]), TENSOR)
            if names[:1] == ["math"]:
                return self.constant(getattr(math, names[1]), FLOAT)
            return self.constant(".".join(names), Type(".".join(names[:-1])), "name")
        return self.attribute(self.value(node.value), node.attr)

    def attribute(self, held, name):
        """`held.name`."""
        kind = held.type()
        if kind == TENSOR:
            op, result = _OF_TENSORS.get(name, (f"prim::{name}", "bool"))
            return self.add(op, [held], [Type(result)])
        found = self.program.definition(str(kind)) if kind.kind() == "ClassType" else None
        found = found[0] if found is not None else None
        if isinstance(found, Kind) and found.base == "NamedTuple":
            return self.add("prim::TupleIndex", [held, self.whole(list(found.types).index(name))],
                            [Type(ast.unparse(found.types[name]))])
        if isinstance(found, Kind) and found.base == "Enum":
            result = TEXT if name == "name" else Type(type(next(iter(found.members.values()))).__name__)
            return self.add(f"prim::Enum{name.title()}", [held], [result])
        if isinstance(found, Kind) and name in found.types:
            return self.add("prim::GetAttr", [held], [Type(ast.unparse(found.types[name]))], name=name)
        return self.add(f"prim::{name}", [held], [BOOL if name == "training" else INT])

    def _subscript(self, node):
        made = self.any(node.value)
        if isinstance(made, Several) and isinstance(node.slice, ast.Constant):
            return made[node.slice.value]
        held = self.one(made)
        kind = held.type()
        if kind == TENSOR or kind.kind() == "OptionalType" or isinstance(node.slice, ast.Tuple):
            view, indices = self.viewed(held, node.slice)
            return view if indices is None else self.add("aten::index", [view, indices], [TENSOR])
        if isinstance(node.slice, ast.Slice):
            return self.add("aten::slice", [held, *self.bounds(node.slice)], [kind])
        place = self.value(node.slice)
        if kind.kind() == "TupleType":
            elements = kind.elements()
            at = node.slice.value if isinstance(node.slice, ast.Constant) else 0
            return self.add("prim::TupleIndex", [held, place], [elements[at] if at < len(elements) else TENSOR])
        if kind.kind() == "ClassType" and not self.has_method(held, "__getitem__"):
            return self.add("prim::ModuleContainerIndex", [held, place], [kind])
        if kind.kind() == "ClassType":
            return self.method_call(held, "__getitem__", [place], {})
        return self.add("aten::__getitem__", [held, place], [kind.elements()[-1] if kind.elements() else kind])

    def bounds(self, node):
        """Beginning, end and step of a slice."""
        ends = [self.value(b) if b is not None else self.constant(None, NONE) for b in (node.lower, node.upper)]
        return [*ends, self.value(node.step) if node.step is not None else self.whole(1)]

    def viewed(self, held, place):
        """(the view that `held[place]` begins with, the list of indices that are tensors or None)."""
        parts = place.elts if isinstance(place, ast.Tuple) else [place]
        indices, dim = [], 0
        for k, part in enumerate(parts):
            if isinstance(part, ast.Constant) and part.value is Ellipsis:
                dim = -len(parts[k + 1:])
                continue
            if isinstance(part, ast.Slice):
                held = self.add("aten::slice", [held, self.whole(dim), *self.bounds(part)], [TENSOR])
                dim += 1
                continue
            at = self.value(part)
            if at.type() == NONE:
                held = self.add("aten::unsqueeze", [held, self.whole(dim)], [TENSOR])
                dim += 1
            elif at.type().kind() in ("IntType", "BoolType"):
                held = self.add("aten::select", [held, self.whole(dim), at], [TENSOR])
            else:
                indices += [None] * (dim - len(indices)) + [at]
                dim += 1
        if not indices:
            return held, None
        indices = [self.constant(None, NONE) if x is None else x for x in indices]
        return held, self.add("prim::ListConstruct", indices, [Type("List[Optional[Tensor]]")])


class Then(ast.stmt):
    """A statement that is a function of the one who makes the graph."""

    _fields = ()

    def __init__(self, run):
        super().__init__()
        self.run = run
