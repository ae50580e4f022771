"""Looking at a program: what its graph recorded, what a model computes, where numbers go wrong, what an error means.

Derivative rules are plain Python (the lambdas in `flambeau/ops`), so a debugger steps through a backward pass: set a
breakpoint in a rule, or `breakpoint()` in a hook, and look at the gradients that arrive.
"""

import importlib as _importlib

from .._shown import shown

#: name -> the module it lives in; loaded when first used, because a failing operator loads this package for its hint
_LAZY = {"draw": "flambeau.debug._draw", "tape": "flambeau.debug._tape"}


def __getattr__(name):
    if name in _LAZY:
        return getattr(_importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {shown(name)}")


def __dir__():
    return sorted(set(globals()) | set(_LAZY))
