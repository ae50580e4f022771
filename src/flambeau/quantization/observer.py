"""The old place of `flambeau.ao.quantization.observer`."""

from ..ao.quantization import observer as _new


def __getattr__(name):
    return getattr(_new, name)


def __dir__():
    return dir(_new)
