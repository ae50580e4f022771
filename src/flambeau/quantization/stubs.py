"""The old place of `flambeau.ao.quantization.stubs`."""

from ..ao.quantization import stubs as _new


def __getattr__(name):
    return getattr(_new, name)


def __dir__():
    return dir(_new)
