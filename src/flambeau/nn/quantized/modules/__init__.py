"""The old place of `flambeau.ao.nn.quantized.modules`."""

from ....ao.nn.quantized import modules as _new


def __getattr__(name):
    return getattr(_new, name)


def __dir__():
    return dir(_new)
