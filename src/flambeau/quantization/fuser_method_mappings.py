"""The old place of `flambeau.ao.quantization.fuser_method_mappings`."""

from ..ao.quantization import fuser_method_mappings as _new


def __getattr__(name):
    return getattr(_new, name)


def __dir__():
    return dir(_new)
