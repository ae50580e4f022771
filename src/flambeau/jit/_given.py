"""What a program makes of values that Python gives it: members, named tuples and objects of classes of one's own.

A program has classes of its own, also where it was read from a file. Where a function declares one, a value of the
class that the program was made of, or of one alike, becomes one of the program's: members by their names, objects by
their attributes. Nothing of an object is read but what it holds and the class declares, and that must be of the
declared type.
"""

import ast
import contextlib
import enum
import functools

import flambeau

from .._shown import shown
from ._accepted import Taken, Unfit, way_of
from ._compile import dotted


def taken(program, node, is_method=False):
    """The Taken of a FunctionDef, for calls from Python."""
    args = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)[is_method:]
    kinds = {arg.arg: arg.annotation for arg in args if arg.annotation is not None}
    ways = {name: _way(program, kind) for name, kind in kinds.items()}
    names = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)[is_method:]]
    return Taken(node.name, names, ways, {name: ast.unparse(kind) for name, kind in kinds.items()})


def opened(function, accept, is_method=False):
    """`function`, for calls from Python; `accept`: the Taken of arguments that the function does not look at itself."""
    if not accept.ways:
        return function
    if is_method:
        @functools.wraps(function)
        def call(self, *args, **kwargs):
            args, kwargs = accept(args, kwargs)
            return function(self, *args, **kwargs)
    else:
        @functools.wraps(function)
        def call(*args, **kwargs):
            args, kwargs = accept(args, kwargs)
            return function(*args, **kwargs)
    return call


def _way(program, kind):
    """What takes a value of a declared type; None where every value will do."""
    def own(node):
        names = dotted(node)
        found = program.definition(".".join(names)) if names is not None and names[0] == "__torch__" else None
        is_plain = found is None or found[0].base == "Module" or "Interface" in found[0].base
        return None if is_plain else functools.partial(_own, program, found[0])

    return way_of(kind, own)


def _own(program, kind, value):
    """The member, named tuple or object of the program that a value is like."""
    found = program.find(kind.qualified)
    if value is None or isinstance(value, found):
        return value
    if kind.base == "Enum":
        return found[value.name] if isinstance(value, enum.Enum) and value.name in kind.members else value
    if kind.base == "NamedTuple":
        fits = isinstance(value, tuple) and len(value) == len(kind.types)
        return found(*(_checked(program, kind, name, item) for name, item in zip(kind.types, value, strict=True))
                     ) if fits else value
    held = getattr(value, "__dict__", {})
    if missing := [name for name in kind.types if name not in held]:
        raise RuntimeError(f"jit: the program takes a {kind.node.name}, whose attribute {shown(missing[0])} the given "
                           f"{type(value).__name__} has not")
    made = object.__new__(found)
    vars(made).update((name, _checked(program, kind, name, held[name])) for name in kind.types)
    return made


def _checked(program, kind, name, value):
    """What an attribute holds, which must be of the type that the class declares."""
    way, declared = _way(program, kind.types[name]), ast.unparse(kind.types[name])
    with contextlib.suppress(Unfit):  # the error below says what is wrong
        value = value if way is None else way(value)
    if "Any" in declared or not flambeau.jit.isinstance(value, program.type(kind.types[name])):
        raise RuntimeError(f"jit: the attribute {shown(name)} of a {kind.node.name} must be a {declared}, got "
                           f"{shown(value)}")
    return value
