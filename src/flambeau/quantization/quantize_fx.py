"""The old place of `flambeau.ao.quantization.quantize_fx`."""

from ..ao.quantization import quantize_fx as _new


def __getattr__(name):
    return getattr(_new, name)


def __dir__():
    return dir(_new)
