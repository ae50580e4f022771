"""Engines of quantized operators: PyTorch's names for them are values here, of one way to compute.

A program may set `engine`, and observers choose their defaults by it; what an operator returns does not depend on it.

>>> import flambeau
>>> getattr(flambeau.backends.quantized, "engine")
'x86'
"""

import sys
from types import ModuleType

from .._shown import shown

supported_engines = ["qnnpack", "onednn", "x86", "fbgemm"]


class _Quantized(ModuleType):
    """The module, which refuses an engine that it does not know."""

    _engine = "x86"

    @property
    def engine(self):
        """The name that was set last."""
        return self._engine

    @engine.setter
    def engine(self, name):
        if name not in ("none", *supported_engines):
            raise RuntimeError(f"backends.quantized.engine: expected one of {', '.join(supported_engines)}, got "
                               f"{shown(name)}")
        self._engine = name


sys.modules[__name__].__class__ = _Quantized
