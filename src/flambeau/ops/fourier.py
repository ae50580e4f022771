"""Discrete Fourier transforms: which dimensions, lengths and scales the three primitives are called with."""

from math import prod, sqrt

from .. import _C
from .._shown import shown
from .dims import wrap_dim
from .kinds import OPS, composite, primitive

_KERNEL = "a kernel, reached through the functions of fft"

# --- the primitives: every dim has its final length n, and one scale serves all -------------------------------------

_c2c = primitive(
    "_fft_c2c(Tensor self, int[] dim, int[] n, float scale, bool forward) -> Tensor",
    d={"self": lambda g, self_shape, dim, n, scale, forward:
       _fitted(_c2c(g, dim, n, scale, not forward), self_shape, dim)},
    namespace=None, skip=_KERNEL)
_r2c = primitive(
    "_fft_r2c(Tensor self, int[] dim, int[] n, float scale, bool forward) -> Tensor",
    d={"self": lambda g, self_shape, dim, n, scale, forward:
       _fitted(_r2c_back(g, dim, n, scale, forward), self_shape, dim)},
    namespace=None, skip=_KERNEL)
_c2r = primitive(
    "_fft_c2r(Tensor self, int[] dim, int[] n, float scale, bool forward) -> Tensor",
    d={"self": lambda g, self_shape, dim, n, scale, forward:
       _fitted(_c2r_back(g, dim, n, scale, forward), self_shape, dim)},
    namespace=None, skip=_KERNEL)


def _fitted(g, shape, dims):
    """The gradient cut where the input was padded with zeros, zeros where it was cut."""
    for d in dims:
        have, want = g.shape[d], shape[d]
        if have > want:
            g = g.narrow(d, 0, want)
        elif have < want:
            g = OPS["cat"]((g, g.new_zeros((*g.shape[:d], want - have, *g.shape[d + 1:]))), d)
    return g


def _r2c_back(g, dims, n, scale, forward):
    """The half spectrum's gradient, zeros for the other half, transformed back; its real part."""
    last = dims[-1]
    full = _fitted(g, {last: n[-1]}, [last])
    return _c2c(full, dims, n, scale, not forward).real


def _c2r_back(g, dims, n, scale, forward):
    """The spectrum of the gradient, the inner frequencies counted twice because their mirror images were left out."""
    spectrum = _r2c(g, dims, n, scale, not forward)
    last, size = dims[-1], n[-1]
    inner = (size - 1) // 2
    if inner == 0:
        return spectrum
    weight = OPS["ones"](spectrum.shape[last], dtype=g.dtype, device=g.device)
    weight.narrow(0, 1, inner).fill_(2)
    shape = [1] * g.ndim
    shape[last] = -1
    return spectrum * weight.reshape(shape)

# --- arguments ------------------------------------------------------------------------------------------------------

_FLOATS = (_C.float32, _C.float64)
_COMPLEX = (_C.complex64, _C.complex128)


def _real(self):
    """Integers become floating numbers."""
    if self.is_complex() or self.is_floating_point():
        if self.dtype not in _FLOATS + _COMPLEX:
            raise RuntimeError(f"Unsupported dtype {self.dtype}")
        return self
    return self.to(_C.default_dtype())


def _complex(self):
    if self.dtype in _COMPLEX:
        return self
    self = _real(self)
    return self if self.is_complex() else self.to(_C.complex128 if self.dtype == _C.float64 else _C.complex64)


def _refuse_complex(self, name):
    if self.is_complex():
        raise RuntimeError(f"{name}: expected real input, got {self.dtype}")


def _scale(norm, forward, count):
    if norm is None and forward:
        return 1.0
    if norm not in (None, "backward", "ortho", "forward"):
        raise RuntimeError(f"fft: norm must be 'forward', 'backward' or 'ortho', got {shown(norm)}")
    if norm == "ortho":
        return 1 / sqrt(count) if count > 0 else 1.0
    return 1 / count if (norm == "forward") == forward and count > 0 else 1.0


def _dim(self, dim):
    ndim = self.ndim
    if ndim == 0:
        raise IndexError(f"fft: dim {dim} of a tensor that has no dimensions")
    return wrap_dim(dim, ndim, "fft")


def _checked(n):
    if n < 1:
        raise RuntimeError(f"fft: the length of the transform must be positive, got n={n}")
    return n


def _dims(self, s, dim):
    """(dimensions, lengths): `dim` absent means the last len(s), or all; a length of -1 or none is the input's."""
    s = (s,) if isinstance(s, int) else s
    shape = self.shape
    ndim = len(shape)
    if dim is None:
        if s is not None and len(s) > ndim:
            raise RuntimeError(f"fft: s holds {len(s)} sizes, and the input has {ndim} dimensions")
        dims = list(range(ndim)) if s is None else list(range(ndim - len(s), ndim))
    else:
        dims = [d + ndim if -ndim <= d < 0 else _dim(self, d) for d in ((dim,) if isinstance(dim, int) else dim)]
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"fft: dim names a dimension twice: {dim}")
        if s is not None and len(s) != len(dims):
            raise RuntimeError(f"fft: s holds {len(s)} sizes for {len(dims)} dimensions in dim; give one size per "
                               "dimension")
    lengths = [shape[d] for d in dims]
    if s is not None:
        lengths = [n if wanted == -1 else wanted for n, wanted in zip(lengths, s)]
    for n in lengths:
        if n < 1:
            _checked(n)
    return dims, lengths

# --- one dimension --------------------------------------------------------------------------------------------------

def _along(transform, self, n, dim, norm, forward):
    """One dimension by a primitive. Most of a small transform's time is spent here: what is usual needs no call."""
    if transform is not _r2c and self.dtype not in _COMPLEX:
        self = _complex(self)
    shape = self.shape
    ndim = len(shape)
    if not -ndim <= dim < ndim:
        _dim(self, dim)  # says why not
    if n is None:
        n = 2 * (shape[dim] - 1) if transform is _c2r else shape[dim]
    if n < 1:
        _checked(n)
    scale = _scale(norm, forward, n) if norm is not None else 1.0 if forward else 1 / n
    return transform(self, (dim + ndim if dim < 0 else dim,), (n,), scale, forward)


def _to_half(self, n, dim, norm, forward, name):
    if self.dtype not in _FLOATS:
        _refuse_complex(self, name)
        self = _real(self)
    return _along(_r2c, self, n, dim, norm, forward)


_ONE = "(Tensor self, int? n=None, int dim=-1, str? norm=None) -> Tensor"


def _record(name, signature, samples="fft_one"):
    return composite(f"fft_{name}{signature}", namespace=None, aliases=(f"fft.{name}",), out=True, samples=samples,
                     autocast="float32")


@_record("fft", _ONE)
def fft(self, n=None, dim=-1, norm=None):
    """The discrete Fourier transform along one dimension, of `n` numbers (cut or zeros appended). norm: "backward"
    (the default: no factor), "ortho" (1 / sqrt(n)) or "forward" (1 / n); the inverse has the opposite factor.

    >>> import flambeau
    >>> flambeau.fft.fft(flambeau.tensor([1., 0., 0., 0.]))
    tensor([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j])
    """
    return _along(_c2c, self, n, dim, norm, True)


@_record("ifft", _ONE)
def ifft(self, n=None, dim=-1, norm=None):
    """The inverse of fft.

    >>> import flambeau
    >>> flambeau.fft.ifft(flambeau.ones(2))
    tensor([1.+0.j, 0.+0.j])
    """
    return _along(_c2c, self, n, dim, norm, False)


@_record("rfft", _ONE, "fft_real")
def rfft(self, n=None, dim=-1, norm=None):
    """The first n // 2 + 1 numbers of the transform of real numbers; the others mirror them.

    >>> import flambeau
    >>> flambeau.fft.rfft(flambeau.tensor([1., 0., 0., 0.]))
    tensor([1.+0.j, 1.+0.j, 1.+0.j])
    """
    return _to_half(self, n, dim, norm, True, "rfft")


@_record("irfft", _ONE)
def irfft(self, n=None, dim=-1, norm=None):
    """The inverse of rfft: n real numbers (2 (size - 1) unless given).

    >>> import flambeau
    >>> flambeau.fft.irfft(flambeau.ones(3))
    tensor([1., 0., 0., 0.])
    """
    return _along(_c2r, self, n, dim, norm, False)


@_record("hfft", _ONE)
def hfft(self, n=None, dim=-1, norm=None):
    """The real transform of a Hermitian signal, of which the first half is given.

    >>> import flambeau
    >>> flambeau.fft.hfft(flambeau.tensor([1., 0., 0.]))
    tensor([1., 1., 1., 1.])
    """
    return _along(_c2r, self, n, dim, norm, True)


@_record("ihfft", _ONE, "fft_real")
def ihfft(self, n=None, dim=-1, norm=None):
    """The inverse of hfft: the first half of a Hermitian signal.

    >>> import flambeau
    >>> flambeau.fft.ihfft(flambeau.ones(4))
    tensor([1.-0.j, 0.-0.j, 0.-0.j])
    """
    return _to_half(self, n, dim, norm, False, "ihfft")

# --- several dimensions -----------------------------------------------------------------------------------------------

def _several(self, s, dim, norm, forward):
    if self.dtype not in _COMPLEX:
        self = _complex(self)
    dims, lengths = _dims(self, s, dim)
    if not dims:
        return self.clone()
    scale = 1.0 if norm is None and forward else _scale(norm, forward, prod(lengths))
    dims, lengths = _in_order(dims, lengths)
    return _c2c(self, dims, lengths, scale, forward)


def _in_order(dims, lengths):
    if dims == sorted(dims):
        return dims, lengths
    pairs = sorted(zip(dims, lengths))
    return [d for d, _ in pairs], [n for _, n in pairs]


def _several_to_half(self, s, dim, norm, forward, name):
    _refuse_complex(self, name)
    self = _real(self)
    dims, lengths = _dims(self, s, dim)
    if not dims:
        raise RuntimeError(f"{name}: no dimension is given to transform")
    scale, others = _scale(norm, forward, prod(lengths)), _in_order(dims[:-1], lengths[:-1])
    if forward:
        return _r2c(self, [*others[0], dims[-1]], [*others[1], lengths[-1]], scale, True)
    half = _r2c(self, dims[-1:], lengths[-1:], scale, False)
    return _c2c(half, *others, 1.0, False) if others[0] else half


def _several_from_half(self, s, dim, norm, forward, name):
    self = _complex(self)
    dims, lengths = _dims(self, s, dim)
    if not dims:
        raise RuntimeError(f"{name}: no dimension is given to transform")
    if s is None or (s if not isinstance(s, int) else (s,))[-1] == -1:
        lengths[-1] = 2 * (self.shape[dims[-1]] - 1)
    _checked(lengths[-1])
    others = _in_order(dims[:-1], lengths[:-1])
    return _c2r(self, [*others[0], dims[-1]], [*others[1], lengths[-1]], _scale(norm, forward, prod(lengths)), forward)


_N = "(Tensor self, any s=None, any dim=None, str? norm=None) -> Tensor"
_TWO = "(Tensor self, any s=None, any dim=[-2, -1], str? norm=None) -> Tensor"


@_record("fftn", _N, "fft_several")
def fftn(self, s=None, dim=None, norm=None):
    """fft along several dimensions `dim` (all), of the lengths `s`.

    >>> import flambeau
    >>> flambeau.fft.fftn(flambeau.ones(2, 2))
    tensor([[4.+0.j, 0.+0.j],
            [0.+0.j, 0.+0.j]])
    """
    return _several(self, s, dim, norm, True)


@_record("ifftn", _N, "fft_several")
def ifftn(self, s=None, dim=None, norm=None):
    """The inverse of fftn."""
    return _several(self, s, dim, norm, False)


@_record("rfftn", _N, "fft_several_real")
def rfftn(self, s=None, dim=None, norm=None):
    """fftn of real numbers, the last dimension as rfft.

    >>> import flambeau
    >>> flambeau.fft.rfftn(flambeau.ones(2, 4)).shape
    torch.Size([2, 3])
    """
    return _several_to_half(self, s, dim, norm, True, "rfftn")


@_record("irfftn", _N, "fft_several")
def irfftn(self, s=None, dim=None, norm=None):
    """The inverse of rfftn."""
    return _several_from_half(self, s, dim, norm, False, "irfftn")


@_record("hfftn", _N, "fft_several")
def hfftn(self, s=None, dim=None, norm=None):
    """hfft along the last of several dimensions, fft along the others."""
    return _several_from_half(self, s, dim, norm, True, "hfftn")


@_record("ihfftn", _N, "fft_several_real")
def ihfftn(self, s=None, dim=None, norm=None):
    """The inverse of hfftn."""
    return _several_to_half(self, s, dim, norm, False, "ihfftn")


@_record("fft2", _TWO, "fft_several")
def fft2(self, s=None, dim=(-2, -1), norm=None):
    """fftn along two dimensions, the last.

    >>> import flambeau
    >>> flambeau.fft.fft2(flambeau.ones(1, 2, 2)).real
    tensor([[[4., 0.],
             [0., 0.]]])
    """
    return _several(self, s, dim, norm, True)


@_record("ifft2", _TWO, "fft_several")
def ifft2(self, s=None, dim=(-2, -1), norm=None):
    """The inverse of fft2."""
    return _several(self, s, dim, norm, False)


@_record("rfft2", _TWO, "fft_several_real")
def rfft2(self, s=None, dim=(-2, -1), norm=None):
    """rfftn along two dimensions, the last."""
    return _several_to_half(self, s, dim, norm, True, "rfftn")


@_record("irfft2", _TWO, "fft_several")
def irfft2(self, s=None, dim=(-2, -1), norm=None):
    """The inverse of rfft2."""
    return _several_from_half(self, s, dim, norm, False, "irfftn")


@_record("hfft2", _TWO, "fft_several")
def hfft2(self, s=None, dim=(-2, -1), norm=None):
    """hfftn along two dimensions, the last."""
    return _several_from_half(self, s, dim, norm, True, "hfftn")


@_record("ihfft2", _TWO, "fft_several_real")
def ihfft2(self, s=None, dim=(-2, -1), norm=None):
    """The inverse of hfft2."""
    return _several_to_half(self, s, dim, norm, False, "ihfftn")
