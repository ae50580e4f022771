"""Reductions: those of `flambeau.masked`, with a mask that is True where a value counted."""

from ... import _C
from ..._sparse.tensor import keys, values_of
from ...ops.kinds import OPS
from .. import functions
from ..functions import _dims
from .core import data_of, is_sparse, make
from .rules import refuse, rule


def any_counts(mask, dim, keepdim):
    """Whether a value counts, over some dimensions."""
    dims = _dims(mask, dim)
    return OPS["sum"](mask, dims, keepdim) > 0 if dims else mask.clone()


def _reduce(name, compute, x, dim, keepdim):
    """compute(values, mask, dim, keepdim) of a masked tensor; of sparse layouts only over all dimensions."""
    data, mask = data_of(x), x._masked_mask
    if not is_sparse(data):
        return make(compute(data, mask, dim, keepdim), any_counts(mask, dim, keepdim))
    if dim not in (None, (), []) or keepdim:
        return refuse(name, f" of layout {data.layout} over some dimensions (to_dense() has rules for them)")
    values, counts = values_of(data), values_of(mask)
    found = compute(values, counts, None, False)
    if name in _PLACES and data.layout is _C.sparse_coo:
        found = keys(data._pattern)[found.long()].to(found.dtype)  # the place among all elements
    return make(found, any_counts(counts, None, False))


#: reductions whose result is a place
_PLACES = ("argmin", "argmax")


def _like_ours(name):
    function = getattr(functions, name)

    def reduce(self, dim=None, keepdim=False, *, dtype=None):
        def compute(data, mask, dim, keepdim):
            return function(data, dim, keepdim=keepdim, dtype=dtype, mask=mask)
        return _reduce(name, compute, self, dim, keepdim)
    reduce.__doc__ = f"masked.{name}."
    return reduce


for _name in ("sum", "mean", "prod", "amin", "amax", "argmin", "argmax", "logsumexp"):
    rule(_name)(_like_ours(_name))


def _spread(name):
    function = getattr(functions, name)

    def reduce(self, dim=None, unbiased=None, keepdim=False, *, correction=None):
        if isinstance(dim, bool):  # the first argument of an older form
            dim, unbiased = None, dim

        def compute(data, mask, dim, keepdim):
            return function(data, dim, unbiased, correction=correction, keepdim=keepdim, mask=mask)
        return _reduce(name, compute, self, dim, keepdim)
    reduce.__doc__ = f"masked.{name}."
    return reduce


for _name in ("var", "std"):
    rule(_name, f"{_name}.correction")(_spread(_name))


@rule("norm")
def _norm(self, p=2, dim=None, keepdim=False, dtype=None):
    order = 2.0 if p in (None, "fro") else p

    def compute(data, mask, dim, keepdim):
        return functions.norm(data, order, dim, keepdim=keepdim, dtype=dtype, mask=mask)
    return _reduce("norm", compute, self, dim, keepdim)


@rule("vector_norm", "_vector_norm")
def _vector_norm(self, ord=2, dim=None, keepdim=False, *, dtype=None):
    return _norm(self, ord, dim, keepdim, dtype)


def _truth(name, neutral):
    def reduce(self, dim=None, keepdim=False):
        def compute(data, mask, dim, keepdim):
            filled = data.masked_fill(~mask, neutral)
            return OPS[name](filled) if dim in (None, ()) and not keepdim else \
                OPS[name](filled, _dims(filled, dim), keepdim)
        return _reduce(name, compute, self, dim, keepdim)
    reduce.__doc__ = f"{name} of the values that count."
    return reduce


rule("all")(_truth("all", True))
rule("any")(_truth("any", False))


def _along(name, *names):
    function = getattr(functions, name)

    def compute(self, dim, *, dtype=None):
        data, mask = data_of(self), self._masked_mask
        if is_sparse(data):
            return refuse(name, f" of layout {data.layout} (to_dense() has rules)")
        return make(function(data, dim, dtype=dtype, mask=mask), mask)
    compute.__doc__ = f"masked.{name}, with the same mask."
    rule(name, *names)(compute)


for _name in ("softmax", "log_softmax", "cumsum", "cumprod"):
    _along(_name)
