"""A custom operator's schema: read from a function's annotations, or from its text.

The text is PyTorch's ("(Tensor x, SymInt n=3, *, float s=1.5) -> (Tensor, Tensor)"); `native` spells it as operator
records do, for the argument parser that all operators share.
"""

import collections.abc
import functools
import inspect
import operator
import re
import types
import typing
from dataclasses import dataclass

import flambeau

from .. import _C
from .._shown import shown
from ..ops._describe import split

_PLAIN = {_C.Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str", _C.dtype: "ScalarType",
          _C.device: "Device"}
_LISTED = {_C.Tensor, int, float, bool}
_SEQUENCES = (list, collections.abc.Sequence)
#: PyTorch's names of types by the names operator records use; what is absent passes unchecked ("any")
_RECORD_TYPES = {"Tensor": "Tensor", "SymInt": "int", "int": "int", "float": "float", "bool": "bool", "str": "str",
                 "Scalar": "Scalar", "number": "Scalar", "ScalarType": "dtype", "Device": "device", "Layout": "layout",
                 "MemoryFormat": "memory_format", "Generator": "Generator"}
_RECORD_LISTS = {"Tensor[]": "Tensor[]", "Tensor?[]": "Tensor?[]", "SymInt[]": "int[]", "int[]": "int[]",
                 "float[]": "float[]"}


@dataclass(frozen=True)
class Argument:
    """One parameter: `type` without alias marks; `mutated` where the operator writes into it."""

    name: str
    type: str
    default: str | None
    kwarg_only: bool
    mutated: bool


@dataclass(frozen=True)
class Schema:
    """A parsed schema; str() gives its text."""

    text: str
    name: str
    arguments: tuple
    returns: tuple

    def __str__(self):
        return self.text

    @property
    def mutated(self):
        """Names of the arguments that the operator writes into."""
        return {a.name for a in self.arguments if a.mutated}

    def takes(self, args, kwargs):
        """Whether these are arguments that the schema describes."""
        positional = [a for a in self.arguments if not a.kwarg_only]
        if len(args) > len(positional):
            return False
        given = dict(zip((a.name for a in positional), args))
        known = {a.name: a for a in self.arguments}
        if given.keys() & kwargs.keys() or kwargs.keys() - known.keys():
            return False
        given |= kwargs
        return all(_is(known[name].type, value) for name, value in given.items()) and \
            all(name in given or a.default is not None for name, a in known.items())

    @functools.cached_property
    def dtypes(self):
        """{position: dtype} of the arguments whose default is one. Records know no such defaults: there it is None."""
        return {k: getattr(flambeau, a.default) for k, a in enumerate(self.arguments)
                if a.type == "ScalarType" and a.default not in (None, "None")}

    def native(self, name):
        """The text as an operator record spells it."""
        parts, starred = [], False
        for k, a in enumerate(self.arguments):
            if a.kwarg_only and not starred:
                parts.append("*")
                starred = True
            default = "None" if k in self.dtypes else a.default
            parts.append(f"{_record_type(a.type)} {a.name}" + ("" if default is None else f"={default}"))
        return f"{name}({', '.join(parts)}) -> any"


_KINDS = {"Tensor": _C.Tensor, "SymInt": int, "int": int, "float": (int, float), "bool": bool, "str": str,
          "Scalar": (int, float, complex), "number": (int, float, complex), "ScalarType": _C.dtype,
          "Device": (str, _C.device)}


def _is(kind, value):
    """Whether a value is of a schema's type; of what is not in the table: yes."""
    if kind.endswith("?"):
        return value is None or _is(kind[:-1], value)
    if kind.endswith("[]"):
        return isinstance(value, (tuple, list)) and all(_is(kind[:-2], x) for x in value)
    if isinstance(value, bool) and kind in ("SymInt", "int", "float"):
        return False
    return isinstance(value, _KINDS.get(kind, object))


def _record_type(text):
    bare, mark = text.removesuffix("?"), "?" if text.endswith("?") else ""
    if bare in _RECORD_LISTS:
        return _RECORD_LISTS[bare] + mark
    return _RECORD_TYPES[bare] + mark if bare in _RECORD_TYPES else "any"


# --- from text --------------------------------------------------------------------------------------------------------

_SCHEMA = re.compile(r"\s*(?:(?P<name>[\w:.]+)\s*)?\((?P<arguments>.*)\)\s*->\s*(?P<returns>.*)\s*$", re.DOTALL)
_ARGUMENT = re.compile(r"(?P<type>[\w.]+)(?:\((?P<alias>[\w|]+)(?P<write>!?)(?:\s*->[^)]*)?\))?"
                       r"(?P<suffix>[\[\]\d?]*)\s+(?P<name>\w+)(?:\s*=\s*(?P<default>.+))?$")


def parse(text):
    """The Schema of "ns::name(Tensor x, ...) -> Tensor" (the name may be absent)."""
    found = _SCHEMA.match(text)
    if not found:
        raise RuntimeError(f"schema {shown(text)}: expected \"(Tensor x, int n=1) -> Tensor\", with the arguments in "
                           "parentheses and the result after an arrow")
    arguments, keyword = [], False
    for part in split(found["arguments"]):
        if part == "*":
            keyword = True
            continue
        a = _ARGUMENT.match(part)
        if not a:
            raise RuntimeError(f"schema {shown(text)}: cannot read the argument {shown(part)}; write a type, a name "
                               "and perhaps "
                               "a default, as in \"Tensor x\" or \"int n=3\"")
        suffix = re.sub(r"\d", "", a["suffix"])
        arguments.append(Argument(a["name"], a["type"] + suffix, a["default"], keyword, bool(a["write"])))
    returns = found["returns"].strip()
    returns = split(returns[1:-1]) if returns.startswith("(") else [returns]
    return Schema(text.strip(), found["name"] or "", tuple(arguments), tuple(returns))


# --- from annotations -------------------------------------------------------------------------------------------------

def _optional(annotation):
    """(the type, whether None is accepted)"""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        members = [a for a in typing.get_args(annotation) if a is not type(None)]
        if len(members) < len(typing.get_args(annotation)):
            return functools.reduce(operator.or_, members), True
    return annotation, False


def _spelled(annotation):
    """The schema's word for an annotation; None where there is none."""
    inner, optional = _optional(annotation)
    mark = "?" if optional else ""
    if inner in _PLAIN:
        return _PLAIN[inner] + mark
    if set(typing.get_args(inner)) == {int, float, bool} and typing.get_origin(inner) not in _SEQUENCES:
        return "Scalar" + mark
    if typing.get_origin(inner) in _SEQUENCES:
        (item,) = typing.get_args(inner)
        word = _spelled(item)
        if word is not None and (item in _LISTED or word in ("Scalar", "Tensor?")):
            return f"{word}[]{mark}"
    return None


def _default(value, name, fail):
    if value is None or isinstance(value, (bool, int, float)):
        return str(value)
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, _C.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, _C.device):
        return f'"{value}"'
    return fail(f"the default of parameter {name} is a {type(value).__name__}, which a schema cannot hold")


def _results(annotation, fail):
    if annotation is inspect.Signature.empty:
        fail("the return type is missing; annotate it with -> …")
    if annotation is None or annotation is type(None):
        return "()"
    if typing.get_origin(annotation) is tuple:
        words = [_spelled(a) for a in typing.get_args(annotation)]
        return f"({', '.join(words)})" if None not in words else fail(f"Return has unsupported type {annotation}")
    return _spelled(annotation) or fail(f"Return has unsupported type {annotation}")


def _mutates(mutates_args, fail):
    if isinstance(mutates_args, str) and mutates_args != "unknown":
        fail(f"mutates_args is an iterable of parameter names, got the text {shown(mutates_args)}")


def infer_schema(prototype_function, /, *, mutates_args, op_name=None, tags=()):
    """The schema of a function with type annotations; mutates_args names the arguments it writes into, or "unknown".

    >>> import flambeau
    >>> def scaled(x: flambeau.Tensor, by: float = 2.0) -> flambeau.Tensor: ...
    >>> flambeau.library.infer_schema(scaled, mutates_args=())
    '(Tensor x, float by=2.0) -> Tensor'
    """
    signature = inspect.signature(prototype_function, eval_str=True)
    names = {getattr(tag, "name", tag) for tag in (tags if isinstance(tags, list | tuple | set) else [tags])}
    if names & {"inplace", "out"}:
        raise NotImplementedError("infer_schema: tags inplace and out are not read; name what is written into in "
                                  "mutates_args")

    def fail(reason):
        raise ValueError(f"infer_schema: {reason} (the function's signature is {signature})")

    _mutates(mutates_args, fail)
    parts, starred, written = [], False, 0
    unknown = mutates_args == "unknown"
    for name, p in signature.parameters.items():
        if p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
            fail(f"parameter {name} is positional-only or takes any number of arguments, which a schema cannot hold")
        if p.kind is p.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        if p.annotation is p.empty:
            fail(f"parameter {name} has no type annotation")
        word = _spelled(p.annotation)
        if word is None:
            fail(f"parameter {name} has the type {p.annotation}, which a schema cannot hold; the valid types are "
                 "Tensor, int, float, bool, str, int | float | bool, dtype, device, lists of the first four, and each "
                 "of these | None")
        if (unknown or name in mutates_args) and word.startswith("Tensor"):
            word = f"Tensor(a{written}!)" + word.removeprefix("Tensor")
            written += 1
        elif not unknown and name in mutates_args:
            fail(f"mutates_args names parameter {name}, but an operator can write only into a Tensor or a list of them")
        parts.append(f"{word} {name}" + ("" if p.default is p.empty else f"={_default(p.default, name, fail)}"))
    missing = set() if unknown else set(mutates_args) - set(signature.parameters)
    if missing:
        fail(f"mutates_args names {sorted(missing)}, which are no parameters")
    return f"{op_name or ''}({', '.join(parts)}) -> {_results(signature.return_annotation, fail)}"
