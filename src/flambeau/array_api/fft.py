"""The extension `fft`: Flambeau's operators; the dimensions are called `axis` and `axes`."""

from flambeau import fft as _fft
from flambeau.fft import fftfreq as fftfreq
from flambeau.fft import rfftfreq as rfftfreq

#: of one axis, and of several
OF_ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
OF_SEVERAL = ("fftn", "ifftn", "rfftn", "irfftn")


def _of_one(name):
    operator = getattr(_fft, name)

    def function(x, /, *, n=None, axis=-1, norm="backward"):
        return operator(x, n, axis, norm)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`flambeau.fft.{name}`, which calls the dimension `axis`."
    return function


def _of_several(name):
    operator = getattr(_fft, name)

    def function(x, /, *, s=None, axes=None, norm="backward"):
        return operator(x, s, axes, norm)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`flambeau.fft.{name}`, which calls the dimensions `axes`."
    return function


globals().update({name: _of_one(name) for name in OF_ONE})
globals().update({name: _of_several(name) for name in OF_SEVERAL})


def fftshift(x, /, *, axes=None):
    """Calls the dimensions `axes`."""
    return _fft.fftshift(x, axes)


def ifftshift(x, /, *, axes=None):
    """Calls the dimensions `axes`."""
    return _fft.ifftshift(x, axes)
