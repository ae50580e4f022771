"""The old place of `flambeau.ao.nn.quantized.functional`."""

from ...ao.nn.quantized import functional as _new


def __getattr__(name):
    return getattr(_new, name)


def __dir__():
    return dir(_new)
