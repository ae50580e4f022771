"""The old place of `flambeau.ao.nn.qat`: layers for quantization-aware training."""

from ...ao.nn import qat as _new


def __getattr__(name):
    return getattr(_new, name)


def __dir__():
    return dir(_new)
