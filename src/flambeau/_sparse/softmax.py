"""softmax and log_softmax of sparse tensors: places without a value count as minus infinity."""

from ..ops.dims import wrap_dim
from .convert import to_coo
from .reductions import grouped, per_place
from .tensor import coalesced, make, summed, values_of


def _shares(x, dim, log):
    n = x.sparse_dim()
    values = values_of(x)
    if dim >= n:
        inner = dim - n + 1
        return values.log_softmax(inner) if log else values.softmax(inner)
    which, count = grouped(x, dim)
    shifted = values - per_place(values.detach(), which, count).index_select(0, which)
    total = summed(shifted.exp(), which, count).index_select(0, which)
    return shifted - total.log() if log else shifted.exp() / total


def _over(name, input, dim, dtype, log):
    if not input.is_sparse:
        raise NotImplementedError(f"sparse.{name}: expected layout sparse_coo, got {input.layout}; convert it with "
                                  "to_sparse()")
    x = coalesced(to_coo(input))
    x = x if dtype is None else x.to(dtype)
    if x._nnz() and not x.is_floating_point():
        raise NotImplementedError(f"sparse.{name}: expected a floating-point tensor, got {x.dtype}")
    dim = wrap_dim(dim, x.dim(), f"sparse.{name}")
    return make(x._pattern, _shares(x, dim, log)) if x._nnz() else x


def softmax(input, dim, *, dtype=None):
    """softmax along a dimension, over the values that are there; the others stay absent.

    >>> import flambeau
    >>> x = flambeau.sparse_coo_tensor([[0, 0, 1], [0, 2, 1]], [1., 1., 5.], (2, 3))
    >>> flambeau.sparse.softmax(x, 1).to_dense()
    tensor([[0.5000, 0.0000, 0.5000],
            [0.0000, 1.0000, 0.0000]])
    """
    return _over("softmax", input, dim, dtype, False)


def log_softmax(input, dim, *, dtype=None):
    """The logarithm of `softmax`, at the same places.

    >>> import flambeau
    >>> x = flambeau.sparse_coo_tensor([[0, 1]], [0., 0.], (3,))
    >>> flambeau.sparse.log_softmax(x, 0).values()
    tensor([-0.6931, -0.6931])
    """
    return _over("log_softmax", input, dim, dtype, True)
