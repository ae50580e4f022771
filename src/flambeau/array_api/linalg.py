"""The extension `linalg`: Flambeau's operators where they conform, and what differs."""

import flambeau
from flambeau import linalg as _linalg
from flambeau.linalg import cholesky as cholesky
from flambeau.linalg import det as det
from flambeau.linalg import eig as eig
from flambeau.linalg import eigh as eigh
from flambeau.linalg import eigvals as eigvals
from flambeau.linalg import eigvalsh as eigvalsh
from flambeau.linalg import inv as inv
from flambeau.linalg import matrix_power as matrix_power
from flambeau.linalg import qr as qr
from flambeau.linalg import slogdet as slogdet
from flambeau.linalg import svd as svd
from flambeau.linalg import svdvals as svdvals

from ._promotion import in_common
from ._reductions import sum as _sum


def matmul(x1, x2, /):
    """Promotes, where PyTorch wants one dtype."""
    return flambeau.matmul(*in_common(x1, x2))


def matrix_transpose(x, /):
    """`x.mT`, as a function."""
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: expected at least 2 dimensions, got {x.ndim}")
    return x.mT


def outer(x1, x2, /):
    """Promotes by the standard."""
    return flambeau.outer(*in_common(x1, x2))


def vecdot(x1, x2, /, *, axis=-1):
    """Promotes, keeps the dtype of integers, and does not stretch the axis that it sums over."""
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot: expected vectors of one length along axis {axis}, got {x1.shape[axis]} and "
                         f"{x2.shape[axis]} (shapes {list(x1.shape)} and {list(x2.shape)})")
    x1, x2 = flambeau.broadcast_tensors(*in_common(x1, x2))
    return _linalg.vecdot(x1, x2, dim=axis).to(x1.dtype)


def tensordot(x1, x2, /, *, axes=2):
    """Promotes, and calls the dimensions `axes`."""
    return flambeau.tensordot(*in_common(x1, x2), dims=axes)


def cross(x1, x2, /, *, axis=-1):
    """Promotes, and broadcasts arrays of different numbers of axes."""
    return _linalg.cross(*flambeau.broadcast_tensors(*in_common(x1, x2)), dim=axis)


def diagonal(x, /, *, offset=0):
    """Always that of the last two axes."""
    return flambeau.diagonal(x, offset, -2, -1)


def trace(x, /, *, offset=0, dtype=None):
    """Of stacks of matrices and other diagonals too; sums as `sum` does."""
    return _sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def solve(x1, x2, /):
    """Takes `x2` for a vector only where it has one dimension; PyTorch also takes a stack of vectors.

    >>> from flambeau import array_api as xp
    >>> xp.linalg.solve(xp.eye(2).expand(2, 2, 2), xp.ones((2, 2))).shape
    torch.Size([2, 2, 2])
    """
    x1, x2 = in_common(x1, x2)
    if x2.ndim == 1:
        return _linalg.solve(x1, x2[:, None]).squeeze(-1)
    stack = flambeau.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    return _linalg.solve(x1, x2.expand(*stack, *x2.shape[-2:]))


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """Always that of the last two axes, and has `keepdims`."""
    return _linalg.matrix_norm(x, ord, keepdim=keepdims)


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    """Calls the dimensions `axis`."""
    if axis == ():
        return _linalg.vector_norm(x[..., None], ord, -1)
    return _linalg.vector_norm(x, ord, axis, keepdims)


def matrix_rank(x, /, *, rtol=None):
    """Has the relative tolerance only."""
    return _linalg.matrix_rank(x, rtol=rtol)


def pinv(x, /, *, rtol=None):
    """Has the relative tolerance only."""
    return _linalg.pinv(x, rtol=rtol)
