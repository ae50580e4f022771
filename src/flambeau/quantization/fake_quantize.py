"""The old place of `flambeau.ao.quantization.fake_quantize`."""

from ..ao.quantization import fake_quantize as _new


def __getattr__(name):
    return getattr(_new, name)


def __dir__():
    return dir(_new)
