"""Types of the values of a graph: what programs ask of them, by PyTorch's names."""

import ast
from typing import NamedTuple

from ._types import taken_apart

_KINDS = {"Tensor": "TensorType", "int": "IntType", "float": "FloatType", "bool": "BoolType", "str": "StringType",
          "complex": "ComplexType", "NoneType": "NoneType", "None": "NoneType", "Device": "DeviceObjType",
          "Any": "AnyType", "number": "NumberType", "Generator": "GeneratorType", "List": "ListType",
          "Dict": "DictType", "Tuple": "TupleType", "Optional": "OptionalType", "Future": "FutureType",
          "Union": "UnionType", "function": "FunctionType"}
_NUMBERS = ("int", "float", "complex")


class Type:
    """A type, made of its text as programs write it: `Type("List[int]")`.

    >>> from flambeau.jit._graph_types import Type
    >>> kind = Type("Dict[str, Tensor]")
    >>> kind.kind(), kind.getValueType(), kind.shown()
    ('DictType', Tensor, 'Dict(str, Tensor)')
    """

    def __init__(self, text):
        self._text = text
        self._head, self._parts = taken_apart(text)

    def kind(self):
        """The name of its sort: "TensorType", "ListType", "ClassType" …"""
        return _KINDS.get(self._head, "ClassType")

    @property
    def annotation_str(self):
        """Its text in annotations."""
        return self._text

    def qualified_name(self):
        """The name of a class in the program."""
        return self._text

    def name(self):
        """The last part of that."""
        return self._text.rpartition(".")[2]

    def elements(self):
        """The types in a tuple."""
        return [Type(part) for part in self._parts if part != "()"]

    containedTypes = elements

    def getElementType(self):
        """Of a list, an optional or a future, what it is of."""
        if not self._parts:
            raise RuntimeError(f"getElementType: a {self._text} is made of no other type")
        return Type(self._parts[0])

    def getKeyType(self):
        """Of the keys of a dict."""
        return self.getElementType()

    def getValueType(self):
        """Of the values of a dict."""
        return Type(self._parts[-1])

    def isSubtypeOf(self, other):
        """Whether its values are values of the other type, too."""
        if self._text == other._text or other._head == "Any":
            return True
        if other._head == "Optional":
            return self._head in ("NoneType", "None") or self.isSubtypeOf(other.getElementType())
        return other._head == "number" and self._head in _NUMBERS

    def scalarType(self):
        """Of a tensor: None, since a program takes tensors of any dtype."""
        return

    sizes = strides = dim = device = scalarType  # nor is anything else of a tensor said beforehand

    def requires_grad(self):
        """Of a tensor: whether it is known to require a gradient."""
        return False

    def shown(self):
        """Its text in a printed graph."""
        parts = [Type(part).shown() for part in self._parts if part != "()"]
        if self._head == "List":
            return f"{parts[0]}[]"
        if self._head == "Optional":
            return f"{parts[0]}?"
        if self._head in ("Tuple", "Dict", "Future", "Union"):
            return f"{'' if self._head == 'Tuple' else self._head}({', '.join(parts)})"
        return self._text if self._text != "number" else "Scalar"

    def __eq__(self, other):
        return isinstance(other, Type) and other._text == self._text

    def __hash__(self):
        return hash(self._text)

    def __repr__(self):
        return self._text


def of_annotation(node):
    """The Type that a text's annotation names."""
    text = ast.unparse(node)
    return Type({"device": "Device", "None": "NoneType"}.get(text, text.removeprefix("torch.")))


class Argument(NamedTuple):
    """An argument or result of a Schema; `default_value` is None where there is none."""

    name: str
    type: Type
    default: ast.expr | None = None

    def has_default_value(self):
        """Whether it may be left out."""
        return self.default is not None

    @property
    def default_value(self):
        """Its value where it is left out."""
        return None if self.default is None else ast.literal_eval(self.default)


class Schema:
    """What a function takes and gives, by the names that programs ask."""

    def __init__(self, node, result):
        args = [*node.args.args, *node.args.kwonlyargs]
        missing = [None] * (len(node.args.args) - len(node.args.defaults))
        defaults = [*missing, *node.args.defaults, *node.args.kw_defaults]
        self.name, self.overload_name = node.name, ""
        self.arguments = [Argument(arg.arg, Type("Tensor") if arg.annotation is None else of_annotation(arg.annotation),
                                   default) for arg, default in zip(args, defaults, strict=True)]
        self.returns = [Argument("", result)]

    def __repr__(self):
        given = ", ".join(f"{a.type.shown()} {a.name}" + (f"={ast.unparse(a.default)}" if a.default else "")
                          for a in self.arguments)
        return f"{self.name}({given}) -> {self.returns[0].type.shown()}"
