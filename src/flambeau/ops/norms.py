"""Norms of vectors and matrices, and what is scaled by them."""

from math import inf

from .._C import promote_types
from .._shown import shown
from ._restore import restore
from .dims import wrap_dim, wrap_dims
from .eigenvalues import svdvals
from .kinds import OPS, composite, reduction


def _norm_gradient(g, self, result, ord, dim, keepdim):
    """d (sum |x|^p)^(1/p) / dx = sign(x) (|x| / norm)^(p-1), zero where the norm is; extremes share equally."""
    if self.dtype is not result.dtype:  # which the norm was computed in
        self = self.to(result.dtype)
    shape = self.shape
    g, norm = restore(g, shape, dim, keepdim), restore(result, shape, dim, keepdim)
    if ord == 0:
        return self * 0
    if ord == 1:
        return g * self.sgn()
    if ord == 2:
        return self * (g / norm).masked_fill(norm == 0, 0)
    if ord in (inf, -inf):
        hit = self.abs() == norm
        return self.sgn() * hit * (g / hit.sum(dim, True))
    if ord < 1:
        scale = self.abs().pow(ord - 1).masked_fill(self == 0, 0)
        return self.sgn() * scale * g * norm.pow(1 - ord)
    return self * self.abs().pow(ord - 2).masked_fill(self == 0, 0) * (g / norm.pow(ord - 1)).masked_fill(norm == 0, 0)


def _norm_dtype(self, dtype, api):
    """What the norm is computed in: a dtype of the same kind, real or complex, and no narrower; None: self's own."""
    if dtype is None or dtype is self.dtype or not (self.is_floating_point() or self.is_complex()):
        return None  # the kernel refuses integers
    kind = "complex" if self.is_complex() else "floating-point"
    if not (dtype.is_complex if self.is_complex() else dtype.is_floating_point):
        raise RuntimeError(f"{api}: the norm of {self.dtype} is computed in a {kind} dtype, got dtype={dtype}")
    if promote_types(self.dtype, dtype) is not dtype:
        raise RuntimeError(f"{api}: dtype={dtype} is narrower than the input's {self.dtype}; convert the input or the "
                           "result instead")
    return dtype


_vector_norm = reduction("_vector_norm(Tensor self, float ord, int[]? dim, bool keepdim, dtype? dtype) -> Tensor",
                         node="LinalgVectorNormBackward0", d={"self": lambda g, self, result, ord, dim, keepdim:
                            _norm_gradient(g, self, result, ord, dim, keepdim)}, namespace=None,
                         skip="the kernel of linalg.vector_norm, reached through it",
                         doc="Norm of real vectors over `dim`.")


def _of_vectors(self, ord, dim, keepdim, dtype, api):
    """The kernel reads real numbers in the dtype asked for; the sizes of complex ones are written out."""
    dtype = _norm_dtype(self, dtype, api)
    if self.is_complex():
        self, dtype = (self if dtype is None else self.to(dtype)).abs(), None
    return _vector_norm(self, ord, dim, keepdim, dtype)


@composite("vector_norm(Tensor self, Scalar ord=2, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None)"
           " -> Tensor", namespace="linalg", method=False, out=True, samples="norm")
def vector_norm(self, ord=2, dim=None, keepdim=False, *, dtype=None):
    """The norm (sum |x|^ord)^(1/ord) over `dim` (absent: all); ord may be 0 (count), inf or -inf.

    >>> flambeau.linalg.vector_norm(flambeau.tensor([3., 4.]))
    tensor(5.)
    """
    return _of_vectors(self, ord, dim, keepdim, dtype, "linalg.vector_norm")


@composite("norm(Tensor self, any p=\"fro\", any dim=None, bool keepdim=False, dtype? dtype=None) -> Tensor",
           out=True)
def norm(self, p="fro", dim=None, keepdim=False, dtype=None):
    """The vector norm of order p over `dim` (absent: all elements); "fro" is 2, "nuc" the sum of singular values.

    >>> flambeau.tensor([3., 4.]).norm()
    tensor(5.)
    """
    if dim is not None:
        dim = (dim,) if isinstance(dim, int) else tuple(dim)
    if p == "nuc":
        if self.ndim < 2:
            raise RuntimeError(f"norm: expected a matrix, or a batch of them, got shape {list(self.shape)}")
        return OPS["linalg_matrix_norm"](self, "nuc", (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"norm: expected p to be a number, 'fro' or 'nuc', got {shown(p)}")
    return _of_vectors(self, 2 if p in ("fro", None) else p, dim, keepdim, dtype, "norm")


@composite("renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor", inplace=True, out=True,
           skip="tested by name")
def renorm(self, p, dim, maxnorm):
    """self with each part along `dim` whose p-norm exceeds maxnorm scaled down to it.

    >>> flambeau.renorm(flambeau.tensor([[3., 4.], [0., 1.]]), 2, 0, 1.)
    tensor([[0.6000, 0.8000],
            [0.0000, 1.0000]])
    """
    if p <= 0:
        raise RuntimeError(f"renorm: p must be positive, got {shown(p)}")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: maxnorm must not be negative, got {shown(maxnorm)}")
    if self.dim() < 2:
        raise RuntimeError(f"renorm: at least 2 dimensions are needed, got {self.dim()}")
    dim = wrap_dim(dim, self.dim(), "renorm")
    norm = vector_norm(self, p, [d for d in range(self.dim()) if d != dim], True)
    scale = OPS["where"](norm > maxnorm, maxnorm / (norm + 1e-7), 1.0)
    return self.contiguous() * scale.to(self.dtype)  # the result is contiguous


# --- norms of matrices ------------------------------------------------------------------------------------------------

def _check_norm(self, ord, dim, api):
    if self.ndim < 2:
        raise RuntimeError(f"{api}: expected a matrix, or a batch of them, got shape {list(self.shape)}")
    if not (self.is_floating_point() or self.is_complex()):
        raise RuntimeError(f"{api}: expected floating-point or complex numbers, got {self.dtype}")
    if len(dim) != 2:
        raise RuntimeError(f"{api}: dim must name two dimensions, got {shown(dim)}")
    rows, columns = wrap_dims(dim, self.ndim, api)
    if isinstance(ord, str):
        if ord not in ("fro", "nuc"):
            raise RuntimeError(f"{api}: Order {ord} not supported.")
    elif abs(ord) not in (1, 2, inf):
        raise RuntimeError(f"{api}: Order {ord} not supported.")
    return rows, columns


def _largest(values, dim, keepdim=False):
    """Zero where there are none: no norm is smaller."""
    return values.amax(dim, keepdim) if values.shape[dim] else values.sum(dim, keepdim)


def _matrix_norm(self, ord, dim, keepdim, dtype, api="linalg.matrix_norm"):
    rows, columns = _check_norm(self, ord, dim, api)
    dtype = _norm_dtype(self, dtype, api)
    self = self if dtype is None else self.to(dtype)
    if ord == "fro":
        return vector_norm(self, 2, (rows, columns), keepdim)
    if ord in ("nuc", 2, -2):
        values = svdvals(self.movedim((rows, columns), (-2, -1)))
        if ord == "nuc":
            result = values.sum(-1)
        else:
            result = _largest(values, -1) if ord == 2 else values.amin(-1)
        return result.unsqueeze(min(rows, columns)).unsqueeze(max(rows, columns)) if keepdim else result
    if ord in (inf, -inf):
        rows, columns = columns, rows
    sums = self.abs().sum(rows, True)
    result = _largest(sums, columns, True) if ord > 0 else sums.amin(columns, True)
    return result if keepdim else result.squeeze((rows, columns))


@composite("linalg_matrix_norm(Tensor self, any ord=\"fro\", any dim=None, bool keepdim=False, *, dtype? dtype=None)"
           " -> Tensor", namespace=None, aliases=("linalg.matrix_norm",), out=True, samples="matrix_norm")
def matrix_norm(self, ord="fro", dim=None, keepdim=False, *, dtype=None):
    """Norm of matrices over two dimensions (the last): "fro", "nuc", 2 and -2 (singular values), 1 and -1 (columns),
    inf and -inf (rows).

    >>> import flambeau
    >>> flambeau.linalg.matrix_norm(flambeau.tensor([[3., 0.], [0., 4.]]))
    tensor(5.)
    """
    return _matrix_norm(self, ord, (-2, -1) if dim is None else tuple(dim), keepdim, dtype)


@composite("linalg_norm(Tensor self, any ord=None, any dim=None, bool keepdim=False, *, dtype? dtype=None)"
           " -> Tensor", namespace=None, out=True, aliases=("linalg.norm",), samples="linalg_norm")
def linalg_norm(self, ord=None, dim=None, keepdim=False, *, dtype=None):
    """A vector norm over one dimension, or a matrix norm over two; without `ord` the 2-norm of all numbers.

    >>> import flambeau
    >>> flambeau.linalg.norm(flambeau.tensor([[3., 0.], [0., 4.]]))
    tensor(5.)
    """
    dims = (dim,) if isinstance(dim, int) else None if dim is None else tuple(dim)
    if dims is not None and len(dims) not in (1, 2):
        raise RuntimeError("linalg.norm: dim must name one dimension (a vector norm) or two (a matrix norm), got "
                           f"{shown(dims)}")
    if ord is None:
        return vector_norm(self, 2, dims, keepdim, dtype=dtype)
    if dims is None and self.ndim not in (1, 2):
        raise RuntimeError(f"linalg.norm: ord without dim needs a vector or a matrix, got {self.ndim} dimensions; pass "
                           "dim")
    if (len(dims) if dims is not None else self.ndim) == 2:
        return _matrix_norm(self, ord, dims or (-2, -1), keepdim, dtype)
    if isinstance(ord, str):
        raise RuntimeError(f"linalg.norm: ord={shown(ord)} is a norm of matrices, got shape {list(self.shape)}, "
                           f"dim={dim}")
    return vector_norm(self, ord, dims, keepdim, dtype=dtype)
