"""What a program makes of values that Python gives it: members, named tuples and objects of classes of one's own.

A program has classes of its own, also where it was read from a file. Where a function declares one, a value of the
class that the program was made of, or of one alike, becomes one of the program's: members by their names, objects by
their attributes. Nothing of an object is read but what it holds and the class declares, and that must be of the
declared type.
"""

import ast
import enum
import functools

import flambeau

from .._shown import shown
from ._compile import dotted


def ways_of(program, node):
    """({argument: what makes it the program's}, all arguments) of a FunctionDef."""
    args = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    found = {arg.arg: arg.annotation and _way(program, arg.annotation) for arg in args}
    return {name: way for name, way in found.items() if way is not None}, [arg.arg for arg in args]


def opened(function, ways, names):
    """`function`, for calls from Python."""
    if not ways:
        return function

    @functools.wraps(function)
    def call(*args, **kwargs):
        given = [ways[name](x) if name in ways else x for name, x in zip(names, args)]
        named = {name: ways[name](x) if name in ways else x for name, x in kwargs.items()}
        return function(*given, *args[len(given):], **named)

    return call


def _way(program, kind):
    """The function that makes a value of a declared type the program's; None for types of TorchScript."""
    names = dotted(kind)
    if names is not None and names[0] == "__torch__":
        found = program.definition(".".join(names))
        is_plain = found is None or found[0].base == "Module" or "Interface" in found[0].base
        return None if is_plain else functools.partial(_own, program, found[0])
    if not isinstance(kind, ast.Subscript):
        return None
    parts = kind.slice.elts if isinstance(kind.slice, ast.Tuple) else [kind.slice]
    ways = [_way(program, part) for part in parts]
    make = _CONTAINERS.get(dotted(kind.value)[-1])
    return functools.partial(make, *[way or _same for way in ways]) if make is not None and any(ways) else None


def _same(value):
    return value


def _items(way, value):
    return [way(item) for item in value] if isinstance(value, list) else value


def _entries(key_way, way, value):
    return {key_way(key): way(item) for key, item in value.items()} if isinstance(value, dict) else value


def _parts(*given):
    *ways, value = given
    fits = type(value) is tuple and len(value) == len(ways)
    return tuple(way(item) for way, item in zip(ways, value, strict=True)) if fits else value


_CONTAINERS = {"List": _items, "Dict": _entries, "Tuple": _parts, "Optional": lambda way, value: way(value)}


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
    way = _way(program, kind.types[name])
    value = value if way is None else way(value)
    declared = ast.unparse(kind.types[name])
    if "Any" in declared or not flambeau.jit.isinstance(value, program.type(kind.types[name])):
        raise RuntimeError(f"jit: the attribute {shown(name)} of a {kind.node.name} must be a {declared}, got "
                           f"{shown(value)}")
    return value
