"""Reductions: over no axis, one or several; `axis=()` reduces nothing, and sums of small integers are wide ones."""

import flambeau
from flambeau.ops.dims import wrap_dims


def _over(reduce, x, axis, keepdims, **options):
    """`reduce(x, dims, keepdim)`; over no axis, each element is reduced by itself."""
    if axis == ():
        return reduce(x[..., None], -1, False, **options)
    return reduce(x, axis, keepdims, **options)


def _one_by_one(reduce):
    """A reduction of all axes, or of several, from an operator that takes one."""
    def reduced(x, axis, keepdims, **options):
        if axis is None:
            shape = (1,) * x.ndim if keepdims else ()
            return reduce(x.flatten(), 0, False, **options).reshape(shape)
        axes = (axis,) if isinstance(axis, int) else axis
        for k in sorted(wrap_dims(axes, x.ndim, reduce.__name__), reverse=True):
            x = reduce(x, k, keepdims, **options)
        return x

    return reduced


def _of_all(reduce):
    """A reduction to whose operator `()` means all dimensions."""
    return lambda x, axis, keepdims: reduce(x, () if axis is None else axis, keepdims)


def _wide(x, dtype):
    """The dtype of a sum: the widest of its kind for integers."""
    if dtype is not None or x.is_floating_point() or x.is_complex():
        return dtype
    return flambeau.int64 if x.dtype.is_signed or x.dtype is flambeau.bool else flambeau.uint64


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    """Sums unsigned integers as uint64, where PyTorch makes them int64."""
    return _over(flambeau.sum, x, axis, keepdims, dtype=_wide(x, dtype))


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    """Takes several axes, where PyTorch takes one or all; multiplies unsigned integers as uint64.

    >>> from flambeau import array_api as xp
    >>> xp.prod(xp.full((2, 2, 2), 3), axis=(0, 2))
    tensor([81, 81])
    """
    return _over(_one_by_one(flambeau.prod), x, axis, keepdims, dtype=_wide(x, dtype))


def mean(x, /, *, axis=None, keepdims=False):
    """Calls the dimensions `axis`."""
    return _over(flambeau.mean, x, axis, keepdims)


def _spread(operator, x, axis, correction, keepdims):
    return _over(lambda x, dims, keep: operator(x, dims, correction=correction, keepdim=keep), x, axis, keepdims)


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    """Divides by the number of elements, where PyTorch's correction is 1 unless another is given."""
    return _spread(flambeau.std, x, axis, correction, keepdims)


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    """Divides by the number of elements, where PyTorch's correction is 1 unless another is given."""
    return _spread(flambeau.var, x, axis, correction, keepdims)


def max(x, /, *, axis=None, keepdims=False):
    """Gives values alone and takes several axes, as PyTorch's amax does."""
    return _over(_of_all(flambeau.amax), x, axis, keepdims)


def min(x, /, *, axis=None, keepdims=False):
    """Gives values alone and takes several axes, as PyTorch's amin does."""
    return _over(_of_all(flambeau.amin), x, axis, keepdims)


def all(x, /, *, axis=None, keepdims=False):
    """Gives bools of uint8 too, and over `axis=()` asks each element."""
    return _over(flambeau.all, x.to(flambeau.bool), axis, keepdims)


def any(x, /, *, axis=None, keepdims=False):
    """Gives bools of uint8 too, and over `axis=()` asks each element."""
    return _over(flambeau.any, x.to(flambeau.bool), axis, keepdims)


def count_nonzero(x, /, *, axis=None, keepdims=False):
    """Has `keepdims`."""
    return sum(x != 0, axis=axis, keepdims=keepdims)


def argmax(x, /, *, axis=None, keepdims=False):
    """Calls the dimension `axis`."""
    return flambeau.argmax(x, axis, keepdims)


def argmin(x, /, *, axis=None, keepdims=False):
    """Calls the dimension `axis`."""
    return flambeau.argmin(x, axis, keepdims)


def _running(operator, x, axis, dtype, include_initial, initial):
    if axis is None and x.ndim != 1:
        raise ValueError(f"{operator.name}: an array of {x.ndim} dimensions needs an axis; only one of a single "
                         "dimension may leave it out")
    axis = 0 if axis is None else axis
    x = operator(x, axis, dtype=_wide(x, dtype))
    if not include_initial:
        return x
    shape = [*x.shape]
    shape[axis] = 1
    return flambeau.cat([x.new_full(shape, initial), x], axis)


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    """PyTorch's cumsum, which may begin with the sum of nothing.

    >>> from flambeau import array_api as xp
    >>> xp.cumulative_sum(xp.asarray([1, 2, 3]), include_initial=True)
    tensor([0, 1, 3, 6])
    """
    return _running(flambeau.cumsum, x, axis, dtype, include_initial, 0)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    """PyTorch's cumprod, which may begin with the product of nothing."""
    return _running(flambeau.cumprod, x, axis, dtype, include_initial, 1)


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    """Calls the dimension `axis`."""
    return flambeau.diff(x, n, axis, prepend, append)
