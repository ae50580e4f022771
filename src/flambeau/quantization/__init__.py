"""The old place of `flambeau.ao.quantization`."""

from ..ao import quantization as _new


def __getattr__(name):
    return getattr(_new, name)


def __dir__():
    return dir(_new)
