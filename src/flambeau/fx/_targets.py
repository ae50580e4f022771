"""How the target of a node is called: in a graph's listing, in generated code, and as the name its node is given."""

import operator
import sys
import types

from .. import _C
from .._places import ROOTS, is_ours, torch_module
from .._shown import class_name, shown
from ..ops.namespaces import Overload, Packet

#: what operator's functions look like in code; the placeholders are the arguments
INFIX = {
    "eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "gt": "{} > {}", "le": "{} <= {}", "ge": "{} >= {}",
    "pos": "+{}", "neg": "-{}", "invert": "~{}", "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}",
    "floordiv": "{} // {}", "truediv": "{} / {}", "mod": "{} % {}", "pow": "{} ** {}", "lshift": "{} << {}",
    "rshift": "{} >> {}", "and_": "{} & {}", "or_": "{} | {}", "xor": "{} ^ {}", "getitem": "{}[{}]",
    "matmul": "{} @ {}",
}
#: and its functions that change their first argument
INPLACE = {
    "iadd": "{} += {}", "iand": "{} &= {}", "ifloordiv": "{} //= {}", "ilshift": "{} <<= {}", "imod": "{} %= {}",
    "imul": "{} *= {}", "imatmul": "{} @= {}", "ior": "{} |= {}", "ipow": "{} **= {}", "irshift": "{} >>= {}",
    "isub": "{} -= {}", "itruediv": "{} /= {}", "ixor": "{} ^= {}", "setitem": "{}[{}] = {}",
}


def root_name():
    """The name that generated code uses for this library: "torch" in programs that import it so."""
    return "torch" if "torch" in ROOTS else "flambeau"


def spelled(module):
    """A module's name as the running program would import it."""
    return root_name() + module[module.index("."):] if "." in module and is_ours(module) else (
        root_name() if is_ours(module) else module)


def _module_of(func):
    module = getattr(func, "__module__", None)
    if module is None and isinstance(func, types.BuiltinMethodType):  # a bound method of a C type
        module = type(func.__self__).__module__
    return module or _searched(func)


def _searched(func):
    name = getattr(func, "__name__", None)
    for module_name, module in list(sys.modules.items()):
        if module is not None and getattr(module, "__dict__", {}).get(name) is func:
            return module_name
    raise RuntimeError(f"a node's target must be found in a module, and {shown(func)} is in none")


def _library_name(target):
    """Of an operator of a library: its packet, or one overload."""
    path = f"{root_name()}.ops.{target.qualified.replace('::', '.')}"
    return path if isinstance(target, Packet) else f"{path}.{target._overloadname}"


def _operator_name(op):
    """Where an operator of this library is public; below `ops.aten` where it is not."""
    module, name = op.__module__, op.__name__
    space = sys.modules.get(module)
    for candidate in (name, name.removeprefix(module.rpartition(".")[2] + "_")):
        if getattr(space, candidate, None) is op:
            return f"{spelled(module)}.{candidate}"
    return f"{root_name()}.ops.aten.{name.partition('.')[0]}.{name.partition('.')[2] or 'default'}"


def _function_name(func, name):
    module = _module_of(func)
    if module == "builtins":
        return name
    if is_ours(module) and getattr(sys.modules["flambeau"], name, None) is func:
        return f"{root_name()}.{name}"
    if is_ours(module):
        theirs = torch_module(module, name) if "torch" in ROOTS and module.startswith("flambeau") else spelled(module)
        kept_inside = isinstance(func, type) and theirs == f"{root_name()}._C"
        module = root_name() if kept_inside else theirs
    if name == "<lambda>":
        name = getattr(func, "__qualname__", name)
    return f"{module}.{name}"


def qualified_name(func):
    """The dotted name by which a function is found, as "torch.relu" or "math.sqrt"; builtins have no module.

    >>> import flambeau, math
    >>> from flambeau.fx._targets import qualified_name
    >>> qualified_name(flambeau.nn.functional.gelu), qualified_name(math.sqrt), qualified_name(len)
    ('flambeau.nn.functional.gelu', 'math.sqrt', 'len')
    """
    if isinstance(func, (Overload, Packet)):
        return _library_name(func)
    if isinstance(func, _C.Op):
        return _operator_name(func)
    name = getattr(func, "__name__", None)
    if name is None:
        raise RuntimeError(f"a node calls functions by name, and {shown(func)} has none")
    owner = getattr(func, "__objclass__", None)
    if owner is None and isinstance(func, types.BuiltinMethodType) and isinstance(func.__self__, type):
        owner = func.__self__
    return f"{qualified_name(owner)}.{name}" if owner is not None else _function_name(func, name)


def listed_name(target):
    """The name in a graph's listing: without the underscore of `_operator`, builtins with their module."""
    if isinstance(target, str):
        return target
    if getattr(target, "__module__", None) == "builtins" and hasattr(target, "__name__"):
        return f"builtins.{target.__name__}"
    if getattr(target, "__module__", None) == "_operator":
        return f"operator.{target.__name__}"
    try:
        return qualified_name(target)
    except RuntimeError:
        return class_name(type(target))


def base_name(target):
    """What the name of a node with this target is made of: "add" for `Tensor.__add__` and `operator.add`."""
    if isinstance(target, str):
        name = target
    else:
        name = getattr(target, "__name__", None) or class_name(type(target))
    if isinstance(target, (_C.Op, Overload)):
        name = name.partition(".")[0]
    if name.startswith("__") and name.endswith("__") and len(name) > 4:
        name = name[2:-2]
    return name


def is_operator(target):
    """Whether it is a function of the module `operator`."""
    return getattr(target, "__module__", None) == "_operator" and getattr(operator, target.__name__, None) is target


def type_text(kind):
    """An annotation's text: "int", "typing.List[torch.Tensor]", "collections.Point"."""
    if kind is ...:
        return "..."
    if isinstance(kind, types.FunctionType):
        return kind.__name__
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias):
        return kind.__qualname__ if kind.__module__ == "builtins" else f"{spelled(kind.__module__)}.{kind.__qualname__}"
    return repr(kind)
