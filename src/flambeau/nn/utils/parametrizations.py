"""Parametrizations ready to use: weight and spectral normalization, orthogonal matrices."""

import flambeau

from ... import Tensor, cat, eye, mv, no_grad, randn
from ..._shown import shown
from ...ops.dims import wrap_dim
from .. import functional as F
from ..modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..modules.module import Module
from .parametrize import register_parametrization
from .weight_norm import length

_MAPS = ("matrix_exp", "cayley", "householder")


def _tensor(module, name):
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"{type(module).__name__} has no parameter or buffer named '{name}'")
    return weight


class _WeightNorm(Module):
    """w = g v / |v|, the norm over all dimensions but `dim`   (Salimans & Kingma 2016)."""

    def __init__(self, dim=0):
        super().__init__()
        self.dim = None if dim == -1 else dim

    def forward(self, weight_g, weight_v):
        return weight_v * (weight_g / length(weight_v, self.dim))

    def right_inverse(self, weight):
        return length(weight, self.dim), weight


def weight_norm(module, name="weight", dim=0):
    """Learn a weight's length (original0) and direction (original1) apart   (Salimans & Kingma 2016).

    The length is one number per index of `dim`, or one for all with None. Returns the module; state dicts of the older
    nn.utils.weight_norm load too.

    >>> from flambeau import nn
    >>> list(nn.utils.parametrizations.weight_norm(nn.Linear(2, 3)).state_dict())
    ['bias', 'parametrizations.weight.original0', 'parametrizations.weight.original1']
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def read_older(state_dict, prefix, *_):
        keys = [f"{prefix}{name}_{part}" for part in "gv"]
        if all(key in state_dict for key in keys):
            for k, key in enumerate(keys):
                state_dict[f"{prefix}parametrizations.{name}.original{k}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(read_older)
    return module


class _SpectralNorm(Module):
    """w / sigma, the largest singular value, which u and v follow by power iteration   (Miyato et al. 2018)."""

    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        n = weight.ndim
        if n_power_iterations <= 0:
            raise ValueError(
                f"spectral_norm: n_power_iterations must be positive, got {shown(n_power_iterations)}"
            )
        self.dim, self.eps = wrap_dim(dim, n, "spectral_norm"), eps
        if n > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._matrix(weight)
            for key, size in zip(("_u", "_v"), matrix.shape, strict=True):
                self.register_buffer(key, matrix.new_empty(size).normal_(0, 1))
            with no_grad():
                for buffer in (self._u, self._v):
                    buffer.copy_(F.normalize(buffer, dim=0, eps=eps))
            self._iterate(matrix, 15)

    def _matrix(self, weight):
        return (weight if self.dim == 0 else weight.movedim(self.dim, 0)).flatten(1)

    @no_grad()
    def _iterate(self, matrix, times):
        for _ in range(times):
            self._u.copy_(F.normalize(mv(matrix, self._v), dim=0, eps=self.eps))
            self._v.copy_(F.normalize(mv(matrix.mH, self._u), dim=0, eps=self.eps))

    def forward(self, weight):
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # the next iteration may come before this one's backward
        return weight / (u.conj() @ mv(matrix, v))

    def right_inverse(self, value):
        return value  # the value is taken as one that is normalized already


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divide a weight by its largest singular value, estimated by power iteration   (Miyato et al. 2018).

    `dim` counts the outputs: 0, or 1 for transposed convolutions. Returns the module.

    >>> from flambeau import nn
    >>> list(nn.utils.parametrizations.spectral_norm(nn.Linear(2, 3)).state_dict())[1:]
    ['parametrizations.weight.original', 'parametrizations.weight.0._u', 'parametrizations.weight.0._v']
    """
    weight = _tensor(module, name)
    if dim is None:
        dim = 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0
    register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
    return module


def _orthogonalized(a):
    """The Q of a = QR with a positive diagonal of R."""
    factors, tau = flambeau.geqrf(a)
    q = flambeau.linalg.householder_product(factors, tau)
    return q * factors.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def _is_orthogonal(q):
    unit = eye(q.shape[-1], dtype=q.dtype, device=q.device)
    return flambeau.allclose(q.mH @ q, unit.expand_as(q.mH @ q), atol=10.0 * q.shape[-2] * flambeau.finfo(q.dtype).eps)


class _Orthogonal(Module):
    """A matrix with orthonormal columns (or rows, if it is wide), from the lower triangle of another one.

    With a `base` B the result is B map(x): the map then only has to move away from B   (Lezcano-Casado 2019).
    """

    def __init__(self, weight, orthogonal_map, *, use_trivialization=True):
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError(f"orthogonal: orthogonal_map='householder' needs real numbers, got {weight.dtype}; use "
                             "'matrix_exp' or 'cayley'")
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x):
        wide = x.shape[-2] < x.shape[-1]
        x = x.mT if wide else x
        q = self._reflections(x) if self.orthogonal_map == "householder" else self._rotation(x)
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if wide else q

    def _rotation(self, x):
        n, k = x.shape[-2:]
        x = x.tril()
        if n != k:
            x = cat([x, x.new_zeros((*x.shape[:-1], n - k))], dim=-1)
        a = x - x.mH
        if self.orthogonal_map == "matrix_exp":
            q = flambeau.matrix_exp(a)
        else:
            unit = eye(n, dtype=a.dtype, device=a.device)
            q = flambeau.linalg.solve(unit - a / 2, unit + a / 2)
        return q[..., :k]

    def _reflections(self, x):
        a = x.tril(diagonal=-1)
        tau = 2.0 / (1.0 + (a * a).sum(dim=-2))
        q = flambeau.linalg.householder_product(a, tau)
        return q * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)  # the diagonal holds signs

    @no_grad()
    def right_inverse(self, q):
        if q.shape != self.shape:
            raise ValueError(
                f"orthogonal: expected a value of shape {list(self.shape)}, got {list(q.shape)}"
            )
        wide = q.shape[-2] < q.shape[-1]
        tall = q.mT if wide else q
        if not hasattr(self, "base"):
            if self.orthogonal_map != "householder":
                raise NotImplementedError(
                    "orthogonal: a value can be assigned only with use_trivialization=True, or with "
                    "orthogonal_map='householder'"
                )
            a, tau = flambeau.geqrf(tall)
            diagonal = a.diagonal(dim1=-2, dim2=-1)
            diagonal.copy_(diagonal.sign().where(tau != 0, -diagonal.sign()))
            return a.mT if wide else a
        n, k = tall.shape[-2:]
        if n == k:
            self.base = tall.clone() if _is_orthogonal(tall) else _orthogonalized(tall)
        else:
            more = randn((*tall.shape[:-2], n, n - k), dtype=q.dtype, device=q.device)
            self.base = _orthogonalized(cat([tall, more], dim=-1))
        # the map of -1 on the diagonal is the unit (a reflection's sign -1 is undone by the reflection that is none)
        start = flambeau.zeros_like(q)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return start


def orthogonal(module, name="weight", orthogonal_map=None, *, use_trivialization=True):
    """Keep a matrix (or a batch of them) orthogonal: orthonormal columns, or rows if it is wide; returns the module.

    `orthogonal_map`: "matrix_exp" or "cayley" of a skew-symmetric matrix, or "householder" reflections; by default
    the first for square and complex matrices, the last otherwise. With `use_trivialization` a base matrix, started at
    the weight's orthogonalization, is stored and multiplied on   (Lezcano-Casado 2019).

    >>> import flambeau
    >>> from flambeau import nn
    >>> m = nn.utils.parametrizations.orthogonal(nn.Linear(3, 3))
    >>> flambeau.allclose(m.weight @ m.weight.T, flambeau.eye(3), atol=1e-5)
    True
    """
    weight = _tensor(module, name)
    if weight.ndim < 2:
        raise ValueError(f"orthogonal: expected a matrix, or a batch of them, got a tensor of {weight.ndim} dimensions")
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(f"orthogonal: orthogonal_map must be one of {', '.join(map(repr, _MAPS))}, got "
                         f"{shown(orthogonal_map)}")
    map_ = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    register_parametrization(module, name, map_, unsafe=True)
    return module
