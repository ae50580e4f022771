"""Reductions and normalisations over the elements that a mask selects; over no elements, the neutral element."""

import math

from .. import _C
from .._sparse.masked import dense_mask, reduced, refuse_sparse
from .._sparse.tensor import is_sparse
from ..ops.dims import wrap_dims
from ..ops.kinds import OPS

Tensor = _C.Tensor


def _checked(mask):
    if mask is not None and (not isinstance(mask, Tensor) or mask.dtype is not _C.bool):
        raise TypeError("masked: mask must be a Tensor of bool")
    return mask


def _mask(input, mask):
    if mask is None:
        return OPS["ones_like"](input, dtype=_C.bool)
    mask = dense_mask(_checked(mask))
    return mask.expand(input.shape) if mask.shape != input.shape else mask


def _dims(input, dim):
    if dim is None or dim == ():
        return tuple(range(input.ndim))
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    return tuple(wrap_dims(dims, input.ndim, "masked"))


def _one(input, dim):
    """The dimension that what works along one goes: of several, the first."""
    return dim if isinstance(dim, int) else (_dims(input, dim) or (0,))[0]


def _limit(dtype, sign):
    """The neutral element of max (sign -1) or min (sign 1)."""
    if dtype.is_floating_point:
        return sign * math.inf
    if dtype is _C.bool:
        return sign > 0
    bits = dtype.itemsize * 8 - dtype.is_signed
    return 2**bits - 1 if sign > 0 else (-(2**bits) if dtype.is_signed else 0)


def _prepared(input, dtype, integers_to=_C.int64):
    """The input in `dtype`; of sums, small integers in int64 unless a dtype is given."""
    if dtype is None and integers_to is not None and not input.is_floating_point() and not input.is_complex():
        dtype = integers_to
    return input if dtype is None else input.to(dtype)


def _example(function):
    function.__doc__ += """

    >>> import flambeau
    >>> flambeau.masked.sum(flambeau.tensor([1., 2., 4.]), mask=flambeau.tensor([True, False, True]))
    tensor(5.)
    """
    return function


@_example
def sum(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The sum of the elements whose mask is True; 0 of none."""
    if is_sparse(input):
        return reduced("sum", input, dim, keepdim, dtype, _checked(mask))
    x = _prepared(input, dtype)
    return _over(OPS["sum"], x.masked_fill(~_mask(input, mask), 0), input, dim, keepdim)


def _over(op, x, input, dim, keepdim):
    dims = _dims(input, dim)
    return op(x, dims, keepdim) if dims else x.clone()


def prod(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The product of the elements whose mask is True; 1 of none."""
    if is_sparse(input):
        return reduced("prod", input, dim, keepdim, dtype, _checked(mask))
    x = _prepared(input, dtype)
    x = x if mask is None else x.masked_fill(~_mask(input, mask), 1)
    for d in sorted(_dims(input, dim), reverse=True):
        x = x.prod(d, keepdim)
    return x


def cumsum(input, dim, *, dtype=None, mask=None):
    """Running sums, where masked elements count as 0."""
    refuse_sparse("cumsum", input)
    return _prepared(input, dtype).masked_fill(~_mask(input, mask), 0).cumsum(_one(input, dim))


def cumprod(input, dim, *, dtype=None, mask=None):
    """Running products, where masked elements count as 1."""
    refuse_sparse("cumprod", input)
    return _prepared(input, dtype).masked_fill(~_mask(input, mask), 1).cumprod(_one(input, dim))


def amax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The largest element whose mask is True; -inf (the least number of an integer dtype) of none."""
    if is_sparse(input):
        return reduced("amax", input, dim, keepdim, dtype, _checked(mask))
    x = _prepared(input, dtype, None)
    return _over(OPS["amax"], x.masked_fill(~_mask(input, mask), _limit(x.dtype, -1)), input, dim, keepdim)


def amin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The smallest element whose mask is True; inf (the largest number of an integer dtype) of none."""
    if is_sparse(input):
        return reduced("amin", input, dim, keepdim, dtype, _checked(mask))
    x = _prepared(input, dtype, None)
    return _over(OPS["amin"], x.masked_fill(~_mask(input, mask), _limit(x.dtype, 1)), input, dim, keepdim)


def argmax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The place of the largest element whose mask is True, as a number of the input's dtype."""
    refuse_sparse("argmax", input)
    x = _prepared(input, dtype, None)
    return x.masked_fill(~_mask(input, mask), _limit(x.dtype, -1)).argmax(dim, bool(keepdim)).to(x.dtype)


def argmin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The place of the smallest element whose mask is True, as a number of the input's dtype."""
    refuse_sparse("argmin", input)
    x = _prepared(input, dtype, None)
    return x.masked_fill(~_mask(input, mask), _limit(x.dtype, 1)).argmin(dim, bool(keepdim)).to(x.dtype)


def _count(input, dim, keepdim, mask):
    return _over(OPS["sum"], _mask(input, mask).to(_C.int64), input, dim, keepdim)


def mean(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The mean of the elements whose mask is True; NaN of none."""
    if is_sparse(input):
        return reduced("mean", input, dim, keepdim, dtype, _checked(mask))
    x = _prepared(input, dtype, None)
    if not (x.is_floating_point() or x.is_complex()):
        raise ValueError(f"mean: {x.dtype} has no mean of its own kind; give a floating-point dtype=")
    total = sum(x, dim, keepdim=keepdim, mask=mask)
    return total / _count(input, dim, keepdim, mask).to(total.dtype)


def median(input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    """The (lower) median of the elements whose mask is True; NaN where a slice has none."""
    refuse_sparse("median", input)
    x = _prepared(input, dtype, None)
    wide = x if x.is_floating_point() else x.to(_C.float64)
    wide = wide.masked_fill(~_mask(input, mask), math.nan)
    result = (wide.reshape(1) if x.ndim == 0 else wide).nanmedian(_one(input, dim), keepdim).values
    if x.is_floating_point():
        return result
    if result.isnan().any():
        raise ValueError(f"masked.median: a slice has no element, and {x.dtype} has no NaN to say so; give dtype=")
    return result.to(x.dtype)


def logsumexp(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """log of the sum of exp over the elements whose mask is True; -inf of none."""
    refuse_sparse("logsumexp", input)
    x = _prepared(input, None, _C.default_dtype())
    made = _over(OPS["logsumexp"], x.masked_fill(~_mask(input, mask), -math.inf), input, dim, keepdim)
    return made.to(dtype or input.dtype)


def logaddexp(input, other, *, dtype=None, input_mask=None, other_mask=None):
    """log(exp(input) + exp(other)), where what is masked counts as -inf."""
    refuse_sparse("logaddexp", input, other)
    x = _prepared(input, dtype, None).masked_fill(~_mask(input, input_mask), -math.inf)
    y = _prepared(other, dtype, None).masked_fill(~_mask(other, other_mask), -math.inf)
    return OPS["logaddexp"](x, y)


def norm(input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The vector norm of order `ord` over the elements whose mask is True."""
    refuse_sparse("norm", input)
    x = _prepared(input, dtype, None)
    neutral = math.inf if ord is not None and ord == -math.inf else 0
    return OPS["vector_norm"](x.masked_fill(~_mask(input, mask), neutral), 2.0 if ord is None else ord,
                              _dims(input, dim), keepdim)


def _spread(input, dim, unbiased, correction, keepdim, dtype, mask, root):
    refuse_sparse("std" if root else "var", input)
    if unbiased is not None and correction is not None:
        raise ValueError(f"unbiased={unbiased} and correction={correction} say the same thing twice; pass only "
                         "correction")
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    x = _prepared(input, dtype, _C.default_dtype())
    mask = _mask(input, mask)
    count = _count(input, dim, True, mask)
    centre = sum(x, dim, keepdim=True, mask=mask) / count.to(x.dtype)
    away = (x - centre).masked_fill(~mask, 0)
    squares = away * away.conj() if x.is_complex() else away * away
    total = _over(OPS["sum"], squares.real if x.is_complex() else squares, input, dim, keepdim)
    count = count if keepdim else count.reshape(total.shape)
    result = total / (count - correction).clamp(min=0).to(total.dtype)
    return (result.sqrt() if root else result).to(x.dtype)


def var(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """The variance of the elements whose mask is True."""
    return _spread(input, dim, unbiased, correction, keepdim, dtype, mask, False)


def std(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """The standard deviation of the elements whose mask is True."""
    return _spread(input, dim, unbiased, correction, keepdim, dtype, mask, True)


# --- normalisations ---------------------------------------------------------------------------------------------------

def softmax(input, dim, *, dtype=None, mask=None):
    """softmax over the elements whose mask is True; NaN where there are none."""
    refuse_sparse("softmax", input)
    x = _prepared(input, dtype, None)
    return OPS["softmax"](x.masked_fill(~_mask(input, mask), -math.inf), _one(input, dim))


def log_softmax(input, dim, *, dtype=None, mask=None):
    """log_softmax over the elements whose mask is True."""
    refuse_sparse("log_softmax", input)
    x = _prepared(input, dtype, None)
    return OPS["log_softmax"](x.masked_fill(~_mask(input, mask), -math.inf), _one(input, dim))


def softmin(input, dim, *, dtype=None, mask=None):
    """softmax of the negated elements whose mask is True."""
    refuse_sparse("softmin", input)
    x = _prepared(input, dtype, None)
    return OPS["softmax"](-x.masked_fill(~_mask(input, mask), math.inf), _one(input, dim))


def normalize(input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    """The elements whose mask is True over their norm (at least eps); 0 where the mask is False."""
    refuse_sparse("normalize", input)
    x = _prepared(input, dtype, None)
    size = norm(x, ord, dim, keepdim=True, mask=mask)
    return x.masked_fill(~_mask(input, mask), 0) / size.clamp(min=eps)
