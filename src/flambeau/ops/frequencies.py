"""The frequencies of a discrete Fourier transform, and the order in which they lie."""

from .. import _C
from .fourier import _dim
from .kinds import OPS, composite

_FREQUENCIES = "(int n, Scalar d=1.0, *, dtype? dtype=None, layout? layout=None, device? device=None, " \
               "bool requires_grad=False) -> Tensor"


def _frequencies(positions, n, d, dtype, requires_grad):
    result = positions.to(_C.default_dtype() if dtype is None else dtype) * (1.0 / (n * d))
    return result.requires_grad_() if requires_grad else result


@composite("fft_fftfreq" + _FREQUENCIES, namespace=None, aliases=("fft.fftfreq",), out=True, method=False,
           samples="fft_freq")
def fftfreq(n, d=1.0, *, dtype=None, layout=None, device=None, requires_grad=False):
    """The frequencies of the results of fft of n numbers taken `d` apart: 0, 1, … and the negative ones, over n d.

    >>> import flambeau
    >>> flambeau.fft.fftfreq(4, d=0.5)
    tensor([ 0.0000,  0.5000, -1.0000, -0.5000])
    """
    arange = OPS["arange"]
    positions = OPS["cat"]((arange((n + 1) // 2, device=device), arange(-(n // 2), 0, device=device)))
    return _frequencies(positions, n, d, dtype, requires_grad)


@composite("fft_rfftfreq" + _FREQUENCIES, namespace=None, aliases=("fft.rfftfreq",), out=True, method=False,
           samples="fft_freq")
def rfftfreq(n, d=1.0, *, dtype=None, layout=None, device=None, requires_grad=False):
    """The frequencies of the results of rfft of n numbers taken `d` apart.

    >>> import flambeau
    >>> flambeau.fft.rfftfreq(5)
    tensor([0.0000, 0.2000, 0.4000])
    """
    return _frequencies(OPS["arange"](n // 2 + 1, device=device), n, d, dtype, requires_grad)


def _shifted(self, dim, half):
    dims = list(range(self.ndim)) if dim is None else [_dim(self, d) for d in ((dim,) if isinstance(dim, int) else dim)]
    return self.roll([half(self.shape[d]) for d in dims], dims) if dims else self.clone()


@composite("fft_fftshift(Tensor self, any dim=None) -> Tensor", namespace=None, aliases=("fft.fftshift",),
           samples="fft_shift")
def fftshift(self, dim=None):
    """The frequency zero in the middle of every dimension (or of `dim`) instead of first.

    >>> import flambeau
    >>> flambeau.fft.fftshift(flambeau.arange(5))
    tensor([3, 4, 0, 1, 2])
    """
    return _shifted(self, dim, lambda n: n // 2)


@composite("fft_ifftshift(Tensor self, any dim=None) -> Tensor", namespace=None, aliases=("fft.ifftshift",),
           samples="fft_shift")
def ifftshift(self, dim=None):
    """The inverse of fftshift.

    >>> import flambeau
    >>> flambeau.fft.ifftshift(flambeau.arange(5))
    tensor([2, 3, 4, 0, 1])
    """
    return _shifted(self, dim, lambda n: (n + 1) // 2)
