"""Architecture optimization: quantization of models."""

import importlib

from .._shown import shown


def __getattr__(name):
    if name in ("nn", "quantization"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__} has no attribute {shown(name)}")
