"""The old place of `flambeau.ao.nn.quantized.dynamic`."""

from ....ao.nn.quantized import dynamic as _new
from . import modules as modules


def __getattr__(name):
    return getattr(_new, name)


def __dir__():
    return dir(_new)
