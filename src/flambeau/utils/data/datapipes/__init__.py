"""Datapipes: datasets that are put together of small steps, each of which reads from the one before it."""

import importlib as _importlib

from ...._shown import shown

_PARTS = ("dataframe", "iter", "map", "utils")


def __getattr__(name):
    if name not in _PARTS:
        raise AttributeError(f"module {__name__!r} has no attribute {shown(name)}")
    return _importlib.import_module(f"{__name__}.{name}")


def __dir__():
    return sorted({*globals(), *_PARTS})
