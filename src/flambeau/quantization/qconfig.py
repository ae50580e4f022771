"""The old place of `flambeau.ao.quantization.qconfig`."""

import importlib

_new = importlib.import_module("flambeau.ao.quantization.qconfig")


def __getattr__(name):
    return getattr(_new, name)


def __dir__():
    return dir(_new)
