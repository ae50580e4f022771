"""Which classes and functions, beyond plain data, a file may name: those that the user has named, or has imported.

`add_safe_globals` names them for the whole program, `safe_globals` for a block, as in PyTorch. What is named there is
trusted: its own `__new__`, `__setstate__` or call runs where the file asks for it. A class that the program has merely
imported is used with `weights_only=False`: its objects are made without running any of its code (`objects.py`).
"""

import sys
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING, REVERSE_NAME_MAPPING
from contextlib import contextmanager
from types import ModuleType

from .. import _C
from .._places import our_module, torch_module
from .._shown import shown

_named = []  # what the user trusts, in the order it was named


def add_safe_globals(safe_globals):
    """Trusts classes and functions of this list in files: each one itself, or a pair (it, "the name in the file").

    >>> import flambeau, fractions
    >>> flambeau.serialization.add_safe_globals([fractions.Fraction])
    >>> flambeau.serialization.get_safe_globals()
    [<class 'fractions.Fraction'>]
    >>> flambeau.serialization.clear_safe_globals()
    """
    for item in safe_globals:
        _names_of(item)
        if item not in _named:
            _named.append(item)


def get_safe_globals():
    """What `add_safe_globals` has named so far."""
    return list(_named)


def clear_safe_globals():
    """Trusts nothing beyond plain data again."""
    _named.clear()


@contextmanager
def safe_globals(safe_globals):
    """`add_safe_globals` for a block.

    >>> import flambeau, fractions
    >>> with flambeau.serialization.safe_globals([fractions.Fraction]):
    ...     len(flambeau.serialization.get_safe_globals())
    1
    """
    before = get_safe_globals()
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _named[:] = before


def trusted():
    """{the name in a file: the object} of what the user has named."""
    return {name: item[0] if isinstance(item, tuple) else item for item in _named for name in _names_of(item)}


def _names_of(item):
    """The names by which files may mean an item of the list."""
    if isinstance(item, tuple):
        given = len(item) == 2 and (callable(item[0]) or isinstance(item[0], _C.dtype))
        if not given or not isinstance(item[1], str):
            raise TypeError(f"add_safe_globals: expected a class, a function or a pair (it, name), got {shown(item)}")
        return [item[1]]
    found = (name_of(item) or _own_name(item)) if callable(item) else None
    if found is None:
        raise TypeError(f"add_safe_globals: expected a class or function that its module has under its own name, got "
                        f"{shown(item)}")
    return list(dict.fromkeys([".".join(found), ".".join(torch_name(*found))]))


def _own_name(item):
    """The name that a class or function has for itself, if its module has nothing of that name yet, as in the middle of
    its import."""
    module, name = getattr(item, "__module__", None), getattr(item, "__qualname__", None)
    known = type(module) is str and type(name) is str and "<" not in name and lookup(module, name) is None
    return (module, name) if known else None


# --- names and objects


def name_of(obj):
    """(module, qualified name) under which an object can be found again; None for lambdas and local classes."""
    if isinstance(obj, _C.Op):
        return next(((module, obj.__name__) for module in ("flambeau", "flambeau.nn.functional")
                     if lookup(module, obj.__name__) is obj), None)
    module, name = getattr(obj, "__module__", None), getattr(obj, "__qualname__", None)
    if type(module) is not str or type(name) is not str:
        return None
    # classes that say they are PyTorch's are found in our modules, whether or not theirs has been imported by name
    return (module, name) if lookup(module, name) is obj or find(module, name) is obj else None


def lookup(module, name):
    """The object of that name in a module that the program has imported; nothing is imported or computed for it."""
    found = sys.modules.get(module)
    for part in name.split("."):
        found = found.__dict__.get(part) if isinstance(found, (ModuleType, type)) else None
    return found


def torch_name(module, name):
    """The name that PyTorch has for an object, as protocol 2 writes it."""
    theirs = torch_module(module, name)
    if theirs is not None:
        return theirs, name
    if module == "builtins":
        return REVERSE_NAME_MAPPING.get((module, name), ("__builtin__", name))
    return module, name


def modern(module, name):
    """A name of Python 2, as protocols up to 2 write it, is given today's."""
    if (module, name) in NAME_MAPPING:
        return NAME_MAPPING[module, name]
    return IMPORT_MAPPING.get(module, module), name


def find(module, name):
    """The object that a name in a file means here, if the program has imported it; PyTorch's names mean ours."""
    if module != "torch" and not module.startswith("torch."):
        return lookup(module, name)
    if module == "torch._C._nn":
        module = "torch.nn.functional"
    return lookup(our_module(module, name), name)
