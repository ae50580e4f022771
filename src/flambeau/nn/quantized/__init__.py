"""The old place of `flambeau.ao.nn.quantized`."""

from ...ao.nn import quantized as _new
from . import dynamic as dynamic
from . import functional as functional
from . import modules as modules


def __getattr__(name):
    return getattr(_new, name)


def __dir__():
    return dir(_new)
