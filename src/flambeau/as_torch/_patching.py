"""Blocks in which settings of another compiler have other values."""

import contextlib
import sys


def _owner(module, name):
    """(object, attribute) of a setting whose name may have dots in it."""
    *path, last = name.split(".")
    for part in path:
        module = getattr(module, part)
    return module, last


def patcher(module_name):
    """The function `patch` of a module of settings."""
    @contextlib.contextmanager
    def patch(arg1=None, arg2=None, **changes):
        """A `with` block, or a decorated function, in which settings have other values: patch(name=value),
        patch({name: value}) or patch("name", value)."""
        changes = {**({arg1: arg2} if isinstance(arg1, str) else arg1 or {}), **changes}
        missing = object()
        places = {name: _owner(sys.modules[module_name], name) for name in changes}
        before = {name: getattr(*place, missing) for name, place in places.items()}
        try:
            for name, value in changes.items():
                setattr(*places[name], value)
            yield
        finally:
            for name, value in before.items():
                if value is missing:
                    delattr(*places[name])
                else:
                    setattr(*places[name], value)

    return patch
