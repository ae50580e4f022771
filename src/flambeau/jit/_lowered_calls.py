"""Calls of a program's text as nodes of a graph: operators with all their arguments, methods, functions, objects."""

import ast

from .. import _C
from .._aten.lookup import of_tensors
from .._aten.overloads import forms
from .._aten.spelling import has_spelling
from ..ops import OPS
from ._compile import BUILTINS, dotted
from ._graph import BOOL, FLOAT, INT, NONE, TENSOR, TEXT, Value, path_of
from ._graph_types import Type, of_annotation
from ._lowered import Expressions, Several
from ._plain import FUNCTIONS as PLAIN
from ._program import Kind

_CONVERSIONS = {"int": ("aten::Int", INT), "float": ("aten::Float", FLOAT), "bool": ("aten::Bool", BOOL),
                "str": ("aten::str", TEXT), "complex": ("aten::Complex", Type("complex"))}
_BUILTINS = {"min": "prim::min", "max": "prim::max", "abs": "prim::abs", "print": "prim::Print",
             "range": "prim::rangelist", "dict": "aten::dict", "divmod": "aten::divmod"}
_WORDS = {"contiguous_format": 0, "preserve_format": 1, "channels_last": 2}
#: results of operators of numbers, texts, lists and dicts
_BY_NAME = {
    **dict.fromkeys("len dim numel size ord find rfind index count __range_length __derive_index hash floor ceil Int "
                    "storage_offset element_size gcd floordiv".split(), INT),
    **dict.fromkeys("eq ne lt le gt ge __contains__ __is__ __isnot__ __not__ any all startswith endswith isdigit "
                    "isalpha isalnum islower isupper isspace Bool is_floating_point is_complex isinf isnan "
                    "isfinite".split(), BOOL),
    **dict.fromkeys("sqrt exp log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh Float pow div "
                    "fabs degrees radians".split(), FLOAT),
    **dict.fromkeys("format str upper lower strip lstrip rstrip join replace chr percentFormat capitalize title "
                    "center".split(), TEXT),
    **dict.fromkeys(("split", "rsplit", "splitlines"), Type("List[str]")),
    **dict.fromkeys(("append", "extend", "insert", "clear", "reverse", "sort", "remove", "update", "warn"), NONE),
    "item": Type("number"),
}
_RANK = {"bool": 0, "int": 1, "float": 2, "complex": 3}


#: letters of overloads -> types of arguments
_LETTERS = {"T": ("Tensor",), "i": ("int", "number", "Tensor"), "f": ("float", "int", "number", "Tensor"),
            "s": ("str",), "b": ("bool", "number", "Tensor"), "N": ("int", "float", "bool", "complex", "number"),
            "v": ("Device", "str"), "d": ("int",), "l": ("int",), "m": ("int",), "c": ("complex", "float", "int")}


def _fits(letter, kind):
    """Whether a value of a type may be an argument of a kind."""
    if letter.endswith("?"):
        return kind == "NoneType" or kind.startswith("Optional") or _fits(letter[:-1], kind)
    if letter.endswith("]"):
        one = letter[:letter.index("[")]
        return kind.startswith(("List", "Tuple")) or (one != "T" and letter != f"{one}[]" and _fits(one, kind))
    return kind in _LETTERS[letter] or (letter == "T" and kind.startswith("Optional"))


def _results(schema):
    """The types of an operator's results."""
    return [Type("number" if a.type == "Scalar" else a.type) for a in schema.returns if a.type not in ("()", "")]


class Calls(Expressions):
    """Calls as nodes."""

    def _call(self, node):
        names = dotted(node.func)
        if names is None or names[0] in self.env:
            return self.of_value(node)
        if len(names) == 1:
            special = getattr(self, f"_of_{names[0]}", None)
            return special(node) if special is not None else self.builtin(names[0], node)
        if names == ["torch", "device"]:
            return self.constant(ast.literal_eval(node.args[0]), Type("Device"))
        if names[0] == "torch" and names[1] == "jit":
            return getattr(self, f"_of_{names[-1]}")(node)
        args, kwargs = self.given(node)
        if names[0] == "torch":
            return self.operator("_".join(n for n in names[1:] if n not in ("nn", "functional")), args, kwargs)
        if names[0] == "ops":
            return self.operator(names[2], args, kwargs, names[1])
        if names[0] == "math":
            return self.operator(names[1], args, kwargs)
        return self.defined(".".join(names), args, kwargs)

    def given(self, node):
        """(arguments, {name: argument}) of a call."""
        return [self.any(arg) for arg in node.args], {k.arg: self.any(k.value) for k in node.keywords}

    # ---- operators ---------------------------------------------------------------------------------------------------

    def operator(self, name, args, kwargs, space="aten"):
        """A call of an operator, with what it leaves out filled in."""
        args, kwargs = [self.one(x) for x in args], {key: self.one(x) for key, x in kwargs.items()}
        plain = name in PLAIN and not any("Tensor" in str(x.type()) for x in (*args, *kwargs.values()))
        if space == "prim":
            return self.add(f"prim::{name}", [*args, *kwargs.values()], [self.prim_result(name, args)])
        found = self.form(name, args, kwargs) if space == "aten" and not plain else None
        if found is None:
            kinds = self.results(name, args) if space == "aten" and not plain else [
                self.plain_result(name, args) if space == "aten" else TENSOR]
            return self.add(f"{space}::{name}", [*args, *kwargs.values()], [kind for kind in kinds if kind != NONE])
        arguments, defaults, kinds = found
        given = dict(zip((a.name for a in arguments), args)) | kwargs
        inputs = [given[a.name] if a.name in given else self.default(defaults.get(a.name)) for a in arguments]
        return self.add(f"aten::{name}", inputs, kinds)

    def form(self, name, args, kwargs):
        """(the arguments of the overload that a call is of, {name: default}, the types of its results), or None."""
        op = of_tensors(name)
        if not isinstance(op, _C.Op) or has_spelling(op):
            return None
        schemas = [each._schema for each in ([op] if op.schema is not None else op.alternatives)]
        for each in forms(name):
            given = dict(zip((a.name for a in each.arguments), args)) | kwargs
            if len(args) <= len(each.arguments) and all(a.name in given or a.optional for a in each.arguments) and all(
                    _fits(a.kind, str(given[a.name].type())) for a in each.arguments if a.name in given):
                names = {a.name for a in each.arguments}
                schema = next((s for s in schemas if names <= {a.name for a in s.arguments}), schemas[0])
                return each.arguments, {a.name: a.default_value for a in schema.arguments}, _results(schema)
        return None

    def results(self, name, args):
        """The types of what an operator gives whose form is not known."""
        op = of_tensors(name)
        op = OPS.get(f"{name}.flat", op)
        if name in _BY_NAME or name == "size" or not isinstance(op, _C.Op):
            return [self.plain_result(name, args)]
        return _results((op if op.schema is not None else op.alternatives[0])._schema)

    def default(self, value):
        """An argument that is left out."""
        if isinstance(value, (list, tuple)):
            return self.add("prim::ListConstruct", [self.plain_constant(item) for item in value], [Type("List[int]")])
        return self.plain_constant(_WORDS.get(value, value) if isinstance(value, str) else value)

    def plain_result(self, name, args):
        """The type of what an operator gives."""
        kinds = [str(x.type()) for x in args]
        if any(kind == "Tensor" for kind in kinds) and name not in ("len", "dim", "numel", "Int", "Float", "Bool",
                                                                    "item", "append", "__contains__"):
            return Type("List[int]") if name == "size" and len(args) == 1 else INT if name == "size" else TENSOR
        if name in _BY_NAME and not (name == "div" and "complex" in kinds):
            return _BY_NAME[name]
        first = args[0].type() if args else TENSOR
        if name in ("__getitem__", "pop", "select") and first.kind() in ("ListType", "DictType"):
            return first.elements()[-1]
        if name == "keys":
            return Type(f"List[{first.getKeyType()}]")
        if name == "values":
            return Type(f"List[{first.getValueType()}]")
        if name == "items":
            return Type(f"List[Tuple[{first.getKeyType()}, {first.getValueType()}]]")
        if name == "get":
            return Type(f"Optional[{first.getValueType()}]")
        if name not in PLAIN:
            return TENSOR
        ranked = [kind for kind in kinds if kind in _RANK]
        return Type(max(ranked, key=_RANK.get)) if ranked and len(ranked) == len(kinds) else first

    def prim_result(self, name, args):
        """The type of what one of `ops.prim` gives."""
        of_tensor = {"device": "Device", "dtype": "int", "layout": "int", "shape": "List[int]", "NumToTensor": "Tensor",
                     "data": "Tensor", "grad": "Optional[Tensor]", "EnumName": "str", "type": "str", "index": "int",
                     "rangelist": "List[int]", "id": "int", "itemsize": "int", "nbytes": "int"}
        if name in of_tensor:
            return Type(of_tensor[name])
        if name.startswith("is_") or name == "requires_grad":
            return BOOL
        return args[0].type() if args else NONE

    # ---- builtins ----------------------------------------------------------------------------------------------------

    def builtin(self, name, node):
        """A function of Python's, or one that stands beside this one in a text written by hand."""
        if name not in BUILTINS:
            return self.defined(f"__torch__.{name}", *self.given(node))
        if name == "len" and isinstance(self.any(node.args[0]), Several):
            return self.whole(len(self.any(node.args[0])))
        if name in ("enumerate", "zip"):
            return self.listed(node)
        if name in ("list", "tuple") and node.args and isinstance(node.args[0], ast.Call) and dotted(
                node.args[0].func) in (["range"], ["enumerate"], ["zip"]):
            return self.listed(node.args[0])
        args, kwargs = self.given(node)
        args = [self.one(x) for x in args]
        if args and args[0].type().kind() == "ClassType" and self.has_method(args[0], f"__{name}__"):
            return self.method_call(args[0], f"__{name}__", args[1:], kwargs)
        if name in _CONVERSIONS and args:
            kind, made = _CONVERSIONS[name]
            return args[0] if args[0].type() == made else self.add(kind, args, [made])
        if name == "print":
            return self.add("prim::Print", args, [])
        if name in ("min", "max", "abs") and args[0].type() == TENSOR:
            return self.operator(name, args, {})
        if name in ("min", "max", "abs"):
            first = args[0].type()
            kind = first.getElementType() if first.kind() == "ListType" else self.plain_result(name, args)
            return self.add(f"prim::{name}", args, [kind])
        if name == "range":
            return self.listed(node)
        if name == "dict" and not args:
            return self.add("prim::DictConstruct", [], [Type("Dict[str, Tensor]")])
        kind = args[0].type() if args else Type("List[Tensor]")
        if name == "sum":
            kind = kind.getElementType() if kind.kind() == "ListType" else kind
        elif name == "list":
            kind = Type("List[str]") if kind == TEXT else Type(f"List[{kind.getKeyType()}]") if kind.kind(
                ) == "DictType" else kind
        elif name in _BY_NAME:
            kind = _BY_NAME[name]
        return self.add(_BUILTINS.get(name, f"aten::{name}"), [*args, *map(self.one, kwargs.values())], [kind])

    def listed(self, node):
        """A list of what a loop over an expression gives."""
        name = ast.Name("$item", ast.Load())
        return self._listcomp(ast.ListComp(name, [ast.comprehension(ast.Name("$item", ast.Store()), node, [], 0)]))

    # ---- words of the language ---------------------------------------------------------------------------------------

    def _of_annotate(self, node):
        value, kind = self.value(node.args[1]), of_annotation(node.args[0])
        if value.type() != NONE and value.node().kind() != "prim::Constant":
            value._kind = kind
        return value

    def _of_unchecked_cast(self, node):
        return self.add("prim::unchecked_cast", [self.value(node.args[1])], [of_annotation(node.args[0])])

    def _of_uninitialized(self, node):
        return self.add("prim::Uninitialized", [], [of_annotation(node.args[0])])

    def _of_isinstance(self, node):
        return self.add("prim::isinstance", [self.value(node.args[0])], [BOOL], types=ast.unparse(node.args[1]))

    def _of_getattr(self, node):
        return self.attribute(self.value(node.args[0]), node.args[1].value)

    def _of_hasattr(self, node):
        return self.add("prim::hasattr", [self.value(node.args[0])], [BOOL], name=node.args[1].value)

    def _of_fork(self, node):
        call = ast.copy_location(ast.Call(node.args[0], node.args[1:], node.keywords), node)
        made = self.block.add("prim::fork")
        outer, self.block = self.block, self.block.inner(made)
        value = self.value(call)
        self.block.leave(value)
        self.block = outer
        made._outputs.append(Value(self.graph, made, Type(f"Future[{value.type()}]")))
        return made._outputs[0]

    _of__fork = _of_fork

    # ---- what the program defines ------------------------------------------------------------------------------------

    def of_value(self, node):
        """A call of a method of a value, or of an object."""
        args, kwargs = self.given(node)
        if not isinstance(node.func, ast.Attribute):
            return self.method_call(self.value(node.func), "__call__", args, kwargs)
        held, name = self.value(node.func.value), node.func.attr
        if held.type().kind() == "ClassType":
            return self.method_call(held, name, args, kwargs)
        if name == "wait":
            return self.add("aten::wait", [held], [held.type().getElementType()])
        if held.type() == TENSOR and name == "size":
            return self.operator("size", [held, *args], kwargs)
        return self.operator(name, [held, *args], kwargs)

    def method_call(self, held, name, args, kwargs):
        """A call of a method of an object or module of the program."""
        if not self.has_method(held, name):  # of an interface, or of a class that is not the program's
            return self.add("prim::CallMethod", [held, *map(self.one, args)], [TENSOR], name=name)
        kind = self.program.definition(str(held.type()))[0]
        return self.call(self.method(kind, name), f"{kind.qualified}.{name}", [held, *args], kwargs, held.type())

    def has_method(self, held, name):
        """Whether a value is an object of a class that defines a method."""
        found = self.program.definition(str(held.type()))
        return found is not None and isinstance(found[0], Kind) and name in found[0].methods

    def call(self, node, qualified, args, kwargs, receiver=None):
        """A call of a function or method: written out, or a step."""
        names = [*node.args.args, *node.args.kwonlyargs]
        defaults = dict(zip((a.arg for a in reversed(node.args.args)), reversed(node.args.defaults)))
        given = dict(zip((a.arg for a in names), args)) | kwargs
        values = {a.arg: self.one(given[a.arg]) if a.arg in given else self.value(defaults[a.arg]) for a in names
                  if a.arg in given or a.arg in defaults}
        if self.inlined and "Interface" not in qualified and node.body and qualified not in self.inside:
            self.inside.append(qualified)
            before, path = self.graph.scope, path_of(args[0]) if receiver is not None else ()
            self.graph.scope = path or before
            out = self.function(node, values)
            self.graph.scope = before
            self.inside.pop()
            return out
        result = self.result_of(qualified, node, receiver)
        if receiver is not None:
            return self.add("prim::CallMethod", values.values(), [result], name=node.name)
        function = self.constant(node.name, Type("function"), "name")
        return self.add("prim::CallFunction", [function, *values.values()], [result])

    def defined(self, qualified, args, kwargs):
        """A call of a function or class of the program."""
        found = self.program.definition(qualified)
        found = found[0] if found is not None else None
        if isinstance(found, ast.FunctionDef):
            return self.call(self.definition(self.program.source(qualified)), qualified, args, kwargs)
        kind = Type(qualified)
        if isinstance(found, Kind) and found.base == "NamedTuple":
            values = dict(zip(found.types, args)) | kwargs
            return self.add("prim::TupleConstruct", [self.one(values[name]) for name in found.types], [kind])
        if isinstance(found, Kind) and found.base == "Enum":
            return self.one(args[0])
        made = self.add("prim::CreateObject", [], [kind])
        if isinstance(found, Kind) and "__init__" in found.methods:
            self.call(self.method(found, "__init__"), f"{qualified}.__init__", [made, *args], kwargs, kind)
        return made
