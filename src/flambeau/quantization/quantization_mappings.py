"""The old place of `flambeau.ao.quantization.quantization_mappings`."""

from ..ao.quantization import quantization_mappings as _new


def __getattr__(name):
    return getattr(_new, name)


def __dir__():
    return dir(_new)
