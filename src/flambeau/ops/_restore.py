"""Gradients of reductions: how a reduced result is laid over its input again."""

from .dims import wrap_dim
from .kinds import room


def dims_of(dim, ndim):
    """`dim` of a reduction (absent, one, several) as a sorted list of non-negative dimensions."""
    if dim is None or dim == () or dim == []:
        return list(range(ndim))
    dims = (dim,) if isinstance(dim, int) else dim
    return sorted({wrap_dim(d, ndim, "gradient of a reduction") for d in dims}) if ndim else []


def restore(g, shape, dim=None, keepdim=False):
    """The result `g` of a reduction of `shape` with its reduced dimensions back as size 1: it broadcasts to `shape`."""
    if keepdim or g.ndim == len(shape):
        return g
    if g.ndim == 0:
        return g.reshape((1,) * len(shape))
    for d in (dim,) if isinstance(dim, int) else dim if len(dim) == 1 else dims_of(dim, len(shape)):
        g = g.unsqueeze(d)
    return g


def spread(g, shape, dim=None, keepdim=False):
    """The gradient of a sum: `g` repeated over what was summed."""
    return restore(g, shape, dim, keepdim).expand(shape)


def reduced_count(shape, dim=None):
    """How many elements one result was made of."""
    n = 1
    for d in dims_of(dim, len(shape)):
        n *= shape[d]
    return n


def shared(g, self, result, dim=None, keepdim=False):
    """The gradient of an extreme: `g` in equal parts to the elements that attain it."""
    shape = self.shape
    return _in_equal_parts(g, self == restore(result, shape, dim, keepdim), shape, dim, keepdim)


def shared_with_nan(g, self, result):
    """As `shared`, of the extreme of all elements; where that is NaN, the elements that are NaN attain it."""
    return _in_equal_parts(g, (self == result) | (self.isnan() & result.isnan()), self.shape)


def _in_equal_parts(g, hit, shape, dim=None, keepdim=False):
    dims = dims_of(dim, len(shape))
    count = hit.sum(dims, True) if dims else 1
    return hit * (restore(g, shape, dim, keepdim) / count)


def placed(g, index, shape, dim, keepdim=False):
    """The gradient of a selection: `g` at the positions `index` along `dim`, zeros elsewhere."""
    if not shape:
        return g
    if not keepdim:
        g, index = g.unsqueeze(dim), index.unsqueeze(dim)
    return room(g, shape, index).scatter_(dim, index, g)


def summed_along(g, index, shape, dim):
    """As `placed`, for results that keep the dimension and may have come from one position more than once (cummax)."""
    return room(g, shape, index).scatter_add_(dim, index, g) if shape else g


def total(*parts):
    """The sum of those gradients that are there."""
    there = [p for p in parts if p is not None]
    result = there[0]
    for p in there[1:]:
        result = result + p
    return result
