"""The old place of `flambeau.ao.nn.quantizable`: layers written out in parts."""

from ...ao.nn import quantizable as _new


def __getattr__(name):
    return getattr(_new, name)


def __dir__():
    return dir(_new)
