"""The old place of `flambeau.ao.nn.intrinsic`: layers that are computed together."""

from ...ao.nn import intrinsic as _new


def __getattr__(name):
    return getattr(_new, name)


def __dir__():
    return dir(_new)
