"""Which plain values of a module a program declares, and the types that the module's classes tell of them."""

import ast
import functools
import inspect

from .._places import is_ours
from ..fx._source import parsed
from ..nn import Module
from ._comments import KNOWN
from ._modules import RecursiveScriptModule

_PLAIN = frozenset(vars(Module()))
_OF_SCRIPTS = frozenset(("_jit_types", "_decides", "_scripted_class"))


def is_declared(module, name):
    """Whether an attribute is one of the module's own: private ones of the library's layers are constants."""
    if name not in vars(module) or name in _PLAIN or name in _OF_SCRIPTS or not name.isidentifier():
        return False
    if not name.startswith("_"):
        return True
    kind = getattr(type(module), "_scripted_class", type(module))
    return not (name.startswith("__") or is_ours(kind.__module__ or "") or hasattr(RecursiveScriptModule, name))


def hints_of(module):
    """{attribute: its type} by annotations: in __init__, of the class, and of `jit.Attribute`."""
    found = {}
    for kind in reversed(type(module).__mro__):
        if "__init__" in vars(kind) and not is_ours(kind.__module__ or ""):
            found.update(_in_init(vars(kind)["__init__"]))
        found.update(vars(kind).get("__annotations__", {}))
    found.update(vars(module).get("_jit_types", {}))
    return found


@functools.lru_cache(maxsize=256)
def _in_init(init):
    """{attribute: its type} of the annotated assignments in an __init__."""
    try:
        tree = parsed(inspect.getsource(init))
        receiver = next(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)).args.args[0].arg
    except (OSError, TypeError, SyntaxError, StopIteration, IndexError):
        return {}
    scope, found = {**KNOWN, **getattr(init, "__globals__", {})}, {}
    for node in ast.walk(tree):
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == receiver:
            try:
                found[target.attr] = eval(ast.unparse(node.annotation), scope)
            except Exception:  # a type that only the function knows: the value tells it
                continue
    return found
