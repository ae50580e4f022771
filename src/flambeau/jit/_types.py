"""Types as TorchScript writes them: those of annotations, and those of values."""

import ast
import dataclasses
import enum
import types
import typing

import flambeau

from .._shown import shown

#: classes of types in annotations, by what they are called in TorchScript
_TYPES = {flambeau.Tensor: "Tensor", int: "int", float: "float", bool: "bool", str: "str", complex: "complex",
          type(None): "NoneType", flambeau.device: "Device", flambeau.dtype: "int", typing.Any: "Any",
          flambeau.Size: "List[int]"}
_GENERIC = {list: "List", dict: "Dict", tuple: "Tuple", flambeau.jit.Future: "Future"}


class NotScriptable(NotImplementedError):
    """Python that has no form in TorchScript."""


def resolved(kind, scope):
    """A type whose parts may be texts, as in List["Point"], with the types that those name in `scope`."""
    try:
        return typing.get_type_hints(types.SimpleNamespace(__annotations__={"kind": kind}), scope)["kind"]
    except (NameError, TypeError, SyntaxError, AttributeError):
        return kind


def type_text(kind, named=lambda kind: None):
    """A type as TorchScript writes it; `named` gives the names of classes of one's own."""
    if isinstance(kind, dataclasses.InitVar):
        kind = kind.type
    if isinstance(kind, typing.ForwardRef):
        kind = kind.__forward_arg__
    if isinstance(kind, str):
        kind = eval(kind, {**vars(typing), "torch": flambeau, "Tensor": flambeau.Tensor, "flambeau": flambeau})
    if typing.get_origin(kind) is typing.Annotated:
        kind = kind.__origin__
    if kind in _TYPES:
        return _TYPES[kind]
    if isinstance(kind, type) and issubclass(kind, enum.Enum) and issubclass(kind, (int, str)):
        return "str" if issubclass(kind, str) else "int"
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        others = [part for part in parts if part is not type(None)]
        texts = [type_text(part, named) for part in others]
        inner = texts[0] if len(others) == 1 else f"Union[{', '.join(texts)}]"
        return inner if len(others) == len(parts) else f"Optional[{inner}]"
    if origin is tuple and not parts:
        return "Tuple[()]"
    if origin in _GENERIC:
        return f"{_GENERIC[origin]}[{', '.join(type_text(part, named) for part in parts if part is not Ellipsis)}]"
    if origin is typing.Final or kind in _GENERIC:
        return type_text(parts[0], named) if parts else f"{_GENERIC[kind]}[Tensor]"
    name = named(kind) if isinstance(kind, type) else None
    if name is not None:
        return name
    raise NotScriptable(f"jit.script: {shown(kind)} is no type of TorchScript")


def type_of(value, named=lambda kind: None):
    """The type of a value in TorchScript; None for what has none."""
    if isinstance(value, flambeau.Tensor):
        return "Tensor"
    if type(value) in _TYPES:
        return _TYPES[type(value)]
    if isinstance(value, (list, tuple, dict)) and not hasattr(value, "_fields"):
        if isinstance(value, tuple):
            parts = [type_of(item, named) for item in value]
            return f"Tuple[{', '.join(parts)}]" if value and None not in parts else None
        items = [list(value), list(value.values())] if isinstance(value, dict) else [value]
        kinds = [{type_of(item, named) for item in part} or {"Tensor"} for part in items]
        if all(len(kind) == 1 and None not in kind for kind in kinds):
            return f"{'Dict' if isinstance(value, dict) else 'List'}[{', '.join(kind.pop() for kind in kinds)}]"
    return None if isinstance(value, type) else named(type(value))


def taken_apart(text):
    """("Dict", ["str", "int"]) of the type "Dict[str, int]"; ("int", []) of "int"."""
    node = ast.parse(text, mode="eval").body
    if not isinstance(node, ast.Subscript):
        return text, []
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return ast.unparse(node.value), [ast.unparse(part) for part in parts]


def without_none(text):
    """The type that is optional in another."""
    head, parts = taken_apart(text)
    return parts[0] if head == "Optional" else text
