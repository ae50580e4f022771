"""Which overload of an `aten` operator a call is of, and what its arguments are called there (overloads.txt)."""

import re
from functools import cache
from typing import NamedTuple

import flambeau

from .. import _C
from .._symbolic.numbers import SymBool, SymFloat, SymInt
from ..fx import Node
from ..library._of_records import overloads
from .numbers import is_layout

_FORM = re.compile(r"(\w*)\(([^)]*)\)(\[\])?")


class Argument(NamedTuple):
    """An argument: the kind of its values, its name, whether it may be left out, and whether it is given by name."""

    kind: str
    name: str
    optional: bool
    by_name: bool


class Form(NamedTuple):
    """One overload: its name, its arguments, and whether its result is a list of tensors."""

    name: str
    arguments: tuple
    lists: bool


@cache
def forms(name):
    """The overloads of an operator; none where it has no row."""
    return tuple(Form(overload or "default", _arguments(inner), bool(lists))
                 for overload, inner, lists in _FORM.findall(overloads(name)))


def _arguments(text):
    found, by_name = [], False
    for part in text.split(", ") if text else ():
        if part == "*":
            by_name = True
            continue
        kind, name = part.split(" ")
        found.append(Argument(kind, name.removesuffix("="), name.endswith("="), by_name))
    return tuple(found)


def fitting(name, args, kwargs, overload=None):
    """(Form, [(Argument, value, whether it is given by name)]) of a call, or None where no overload fits.

    A number may stand for a tensor where nothing else fits, and a number for a list of them.

    overload    the one that it is of, where that is known; the table has overloads of the same arguments once
    """
    known = [form for form in forms(name) if form.name == overload] or forms(name)
    for loose in (False, True):
        for form in known:
            found = _bound(form, args, kwargs, loose)
            if found is not None:
                return form, found
    return None


def _bound(form, args, kwargs, loose):
    positional = [a for a in form.arguments if not a.by_name]
    if len(args) > len(positional):
        return None
    given = {a.name: (a, value, False) for a, value in zip(positional, args)}
    for a in form.arguments:
        if a.name in kwargs:
            if a.name in given:
                return None
            given[a.name] = a, kwargs[a.name], a.by_name
    if kwargs.keys() - given.keys() or any(a.name not in given for a in form.arguments if not a.optional):
        return None
    if not all(fits(a.kind, value, loose) for a, value, _ in given.values()):
        return None
    found = [given[a.name] for a in form.arguments if a.name in given]
    return _contiguous(found, positional)


def _contiguous(found, positional):
    """Arguments before which one is left out are given by name."""
    names = [a.name for a, _, _ in found]
    gap = next((k for k, a in enumerate(positional) if a.name not in names), len(positional))
    first = {a.name for a in positional[:gap]}
    return [(a, value, a.name not in first) for a, value, _ in found]


def value_of(x):
    """What is known of an argument of a Node: the value that a Node stands for, or the argument itself."""
    return x.meta.get("val") if isinstance(x, Node) else x


_ONE = {
    "T": lambda x: isinstance(x, _C.Tensor), "b": lambda x: isinstance(x, (bool, SymBool)),
    "i": lambda x: isinstance(x, (int, SymInt)) and not isinstance(x, bool),
    "f": lambda x: isinstance(x, (int, float, SymInt, SymFloat)) and not isinstance(x, bool),
    "N": lambda x: isinstance(x, (int, float, complex, SymInt, SymFloat, SymBool)),
    "c": lambda x: isinstance(x, (int, float, complex)), "s": lambda x: isinstance(x, str),
    "d": lambda x: isinstance(x, _C.dtype), "v": lambda x: isinstance(x, (_C.device, str)),
    "l": is_layout, "m": lambda x: isinstance(x, flambeau.memory_format) and not is_layout(x),
}


def fits(kind, x, loose=False):
    """Whether a value is of a kind."""
    if kind.endswith("?"):
        return x is None or fits(kind[:-1], x, loose)
    x = value_of(x)
    if kind.endswith("]"):
        one = kind[:kind.index("[")]
        if isinstance(x, (tuple, list)):
            return all(fits(one, item, loose) for item in x)
        return loose and kind[0] in "ifb" and fits(one, x)
    return _ONE[kind](x) or (loose and kind == "T" and _ONE["N"](x))
