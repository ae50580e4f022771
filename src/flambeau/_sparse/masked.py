"""Masked reductions of sparse tensors, over the places where the mask is true; what has no value there counts as 0."""

from .. import _C
from ..ops.dims import wrap_dims
from ..ops.kinds import OPS
from .convert import alike, to_coo
from .tensor import COO, CSR, Pattern, coalesced, is_sparse, keys, look_up, make, places, summed, values_of

#: how the values of one place of the result come together; those of integers add up and multiply in int64
_REDUCED = {"sum": "sum", "prod": "prod", "amax": "amax", "amin": "amin", "mean": "sum"}
_WIDENED = ("sum", "prod")


def dense_mask(mask):
    """A mask of any layout with all its elements."""
    return mask.to_dense() if is_sparse(mask) else mask


def refuse_sparse(name, *tensors):
    for t in tensors:
        if is_sparse(t):
            raise ValueError(f"masked.{name}: not available for a tensor of layout {t.layout}; use its to_dense()")


def reduced(name, x, dim, keepdim, dtype, mask):
    """The reduction of that name of a COO or CSR tensor, in its layout; rows without a place stay without one."""
    _check(name, x, keepdim, mask)
    source = coalesced(to_coo(x))
    if source._pattern.sparse_dim != source.dim():
        raise NotImplementedError(f"masked.{name}: not available for tensors with dense dimensions; use to_dense()")
    wanted = source._pattern if mask is None else _true_places(mask, x)
    values = values_of(source) if mask is None else look_up(source, wanted)[0]
    if dtype is None and name in _WIDENED and not (values.is_floating_point() or values.is_complex()):
        dtype = _C.int64
    values = values if dtype is None else values.to(dtype)
    dims = tuple(range(x.dim())) if dim is None or dim == () else \
        tuple(wrap_dims((dim,) if isinstance(dim, int) else dim, x.dim(), f"masked.{name}"))
    found = _by_place(name, wanted, values, dims, keepdim)
    return found if x.layout is COO else alike(found, x._pattern)


def _check(name, x, keepdim, mask):
    if x.layout is not COO and x.layout is not CSR:
        raise ValueError(f"masked.{name}: expected a tensor of layout strided, sparse_coo or sparse_csr, got "
                         f"{x.layout}")
    if name == "mean" and x.layout is COO:
        raise ValueError("masked.mean: not available for a tensor of layout torch.sparse_coo; use to_sparse_csr()")
    if mask is None and name != "sum":
        raise ValueError(f"masked.{name}: a sparse tensor needs a mask, which says which of its zeros count")
    if x.layout is CSR and not keepdim:
        kind = RuntimeError if name in _WIDENED else AssertionError
        raise kind(f"masked.{name}: a CSR tensor keeps its two dimensions; pass keepdim=True")


def _true_places(mask, x):
    mask = mask if mask.shape == x.shape else dense_mask(mask).expand(x.shape)
    mask = coalesced(to_coo(mask))
    return mask._pattern.changed(indices=mask._pattern.indices[:, values_of(mask)])


def _by_place(name, pattern, values, dims, keepdim):
    """A COO tensor with the values of each place, put together where their kept dimensions agree."""
    kept = [d for d in range(len(pattern.size)) if d not in dims]
    sizes = [pattern.size[d] for d in kept]
    if kept:
        rows, index = OPS["unique"](keys(Pattern(COO, pattern.indices[kept], sizes)), return_inverse=True)
    else:
        rows = OPS["zeros"](min(len(values), 1), dtype=_C.int64, device=values.device)
        index = OPS["zeros"](len(values), dtype=_C.int64, device=values.device)
    kind = _REDUCED[name]
    if kind == "sum":
        total = summed(values, index, len(rows))
    else:
        start = OPS["zeros"](len(rows), dtype=values.dtype, device=values.device)
        total = start.scatter_reduce(0, index, values, kind, include_self=False)
    if name == "mean":
        total = total / summed(OPS["ones_like"](index), index, len(rows)).to(total.dtype)
    indices, size = places(rows, sizes), sizes
    if not kept:
        indices = OPS["zeros"]((0, len(rows)), dtype=_C.int64, device=values.device)
    if keepdim:
        size = [1 if d in dims else s for d, s in enumerate(pattern.size)]
        zero = OPS["zeros"](len(rows), dtype=_C.int64, device=values.device)
        if size:
            indices = OPS["stack"]([zero if d in dims else indices[kept.index(d)] for d in range(len(size))])
    return make(Pattern(COO, indices, size), total)
