"""Helpers around tensors: hooks, data loading."""

import importlib

from .._shown import shown
from . import hooks as hooks

_LAZY = ("checkpoint", "data", "dlpack", "tensorboard", "cpp_extension", "flop_counter",
         "module_tracker", "benchmark")


def __getattr__(name):
    if name in _LAZY:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {shown(name)}")
