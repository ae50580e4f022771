"""The old place of `flambeau.ao.nn.quantized.dynamic.modules`."""

from .....ao.nn.quantized.dynamic import modules as _new


def __getattr__(name):
    return getattr(_new, name)


def __dir__():
    return dir(_new)
