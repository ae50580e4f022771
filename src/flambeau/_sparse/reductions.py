"""Sums over dimensions, norms, and whether anything is true."""

from .. import _C
from ..ops.dims import wrap_dims
from ..ops.kinds import OPS
from .convert import alike, to_coo
from .rules import refuse, rule
from .tensor import COO, coalesced, is_sparse, keys, make, values_of


def _dims(name, x, dim):
    if dim is None or dim == () or dim == []:
        return tuple(range(x.dim()))
    return tuple(wrap_dims((dim,) if isinstance(dim, int) else dim, x.dim(), name))


@rule("sum")
def _sum(self, dim=None, keepdim=False, *, dtype=None):
    """Without a dimension a dense number; over some of a COO tensor's dimensions a COO tensor. Every element takes part
    in a sum, zeros too, so the gradient is dense."""
    found = _summed(self.detach(), dim, keepdim, dtype)
    if _C.is_grad_enabled() and self.requires_grad:
        shape, dtype = self.shape, self.dtype
        gone = () if keepdim or found.dim() == self.dim() else sorted(_dims("sum", self, dim))
        _C.function_node(lambda g: (_spread(g, gone, shape).to(dtype),), (self,), (found,), "SumBackward0")
    return found


def _spread(g, gone, shape):
    g = g.to_dense() if is_sparse(g) else g
    for d in gone:
        g = g.unsqueeze(d)
    return g.expand(shape)


def _summed(self, dim, keepdim, dtype):
    if dim is None or dim == () or dim == []:
        total = values_of(self).sum(dtype=dtype)
        return total.reshape([1] * self.dim()) if keepdim else total
    dims = _dims("sum", self, dim)
    if self.layout is not COO:
        if not keepdim:
            return refuse("sum", (self,), why=" over dimensions without keepdim=True")
        found = _over(to_coo(self), dims, True, dtype)
        return alike(coalesced(to_coo(found)), self._pattern)
    return _over(self, dims, keepdim, dtype)


def _over(self, dims, keepdim, dtype):
    pattern, n = self._pattern, self._pattern.sparse_dim
    values = values_of(self)
    if dtype is None and not (values.is_floating_point() or values.is_complex()):
        dtype = _C.int64
    values = values if dtype is None else values.to(dtype)
    inner = [d - n + 1 for d in dims if d >= n]
    if n == len([d for d in dims if d < n]):  # no place is left
        found = values.sum([0, *inner], dtype=values.dtype)
        return found.reshape([1 if d in dims else s for d, s in enumerate(pattern.size)]) if keepdim else found
    if inner:
        values = values.sum(inner, keepdim=keepdim, dtype=values.dtype)
    kept = [d for d in range(n) if d not in dims]
    indices, size = pattern.indices, pattern.size
    if keepdim:
        indices = OPS["stack"]([indices[d] if d in kept else OPS["zeros_like"](indices[d]) for d in range(n)]) \
            if n else indices
        size = [1 if d in dims else s for d, s in enumerate(size)]
    else:
        indices = indices[kept] if len(kept) < n else indices
        size = [s for d, s in enumerate(size) if d not in dims]
    found = make(pattern.changed(indices=indices, size=size, coalesced=pattern.coalesced and len(kept) == n), values)
    return coalesced(found)


def sparse_sum(input, dim=None, dtype=None):
    """The sum of the values, or over some dimensions: sparse where a sparse dimension stays, else dense.

    >>> import flambeau
    >>> x = flambeau.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3., 4., 5.], (2, 3))
    >>> flambeau.sparse.sum(x)
    tensor(12.)
    >>> flambeau.sparse.sum(x, 0).to_dense()
    tensor([4., 0., 8.])
    """
    if dim is None:
        return values_of(input).sum(dtype=dtype)
    if input.layout is not COO:
        return refuse("sparse.sum", (input,), why=" over dimensions")
    dims = _dims("sparse.sum", input, dim)
    whole = all(d in dims for d in range(input.sparse_dim()))
    return _over(coalesced(input), dims, False, dtype if whole else dtype or input.dtype)


@rule("norm")
def _norm(self, p="fro", dim=None, keepdim=False, dtype=None):
    """The norm of all values together."""
    if (dim is not None and len(_dims("norm", self, dim)) != self.dim()) or p == "nuc":
        return refuse("norm", (self,), why=" over some dimensions")
    values = values_of(coalesced(self))
    values = values if dtype is None else values.to(dtype)
    found = OPS["vector_norm"](values.reshape(-1), 2 if p in ("fro", None) else p)
    return found.reshape([1] * self.dim()) if keepdim else found


@rule("vector_norm")
def _vector_norm(self, ord=2, dim=None, keepdim=False, *, dtype=None):
    return _norm(self, ord, dim, keepdim, dtype=dtype)


@rule("any")
def _any(self, dim=None, keepdim=False):
    if dim is not None or keepdim:
        return refuse("any", (self,), why=" over some dimensions")
    return values_of(coalesced(self)).any()


def per_place(values, found, count):
    """The largest value at each place, for softmax."""
    start = OPS["full"]((count, *values.shape[1:]), -float("inf"), dtype=values.dtype, device=values.device)
    index = found.reshape(-1, *([1] * (values.dim() - 1))).expand(values.shape)
    return start.scatter_reduce(0, index, values, "amax")


def grouped(x, dim):
    """(which group of places each value of a COO tensor is in when those along `dim` are one, how many there are)."""
    pattern = x._pattern
    others = [d for d in range(pattern.sparse_dim) if d != dim]
    rest = pattern.changed(indices=pattern.indices[others], size=[pattern.size[d] for d in others])
    if not others:
        return OPS["zeros"](pattern.count, dtype=_C.int64, device=pattern.indices.device), 1
    found, which = OPS["unique"](keys(rest), return_inverse=True)
    return which, len(found)


