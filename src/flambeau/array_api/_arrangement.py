"""Shapes and places: what moves elements, picks them, sorts them and finds them."""

import math
from typing import NamedTuple

import flambeau
from flambeau import Tensor
from flambeau.ops.dims import wrap_dim, wrap_dims

from ._promotion import in_common

# --- shapes -----------------------------------------------------------------------------------------------------------


def concat(arrays, /, *, axis=0):
    """Joins flattened arrays where the axis is None."""
    if axis is None:
        arrays, axis = [x.flatten() for x in arrays], 0
    return flambeau.cat(tuple(in_common(*arrays)), axis)


def stack(arrays, /, *, axis=0):
    """Calls the dimension `axis`."""
    return flambeau.stack(tuple(in_common(*arrays)), axis)


def unstack(x, /, *, axis=0):
    """PyTorch's unbind."""
    return tuple(flambeau.unbind(x, axis))


def broadcast_shapes(*shapes):
    """Calls shapes that do not go together a ValueError."""
    try:
        return flambeau.broadcast_shapes(*shapes)
    except RuntimeError as error:
        raise ValueError(str(error)) from None


def broadcast_to(x, /, shape):
    """Calls the size `shape`."""
    return flambeau.broadcast_to(x, shape)


def broadcast_arrays(*arrays):
    """PyTorch's broadcast_tensors."""
    return tuple(flambeau.broadcast_tensors(*arrays))


def expand_dims(x, /, axis):
    """PyTorch's unsqueeze, of several axes too; they count in the result.

    >>> from flambeau import array_api as xp
    >>> xp.expand_dims(xp.ones(3), (0, -1)).shape
    torch.Size([1, 3, 1])
    """
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    rank = x.ndim + len(axes)
    if len({a % rank if -rank <= a < rank else a for a in axes}) < len(axes):
        raise ValueError(f"expand_dims: the axes {list(axes)} name one twice in a result of {rank} dimensions")
    for a in sorted(wrap_dims(axes, rank, "expand_dims")):
        x = flambeau.unsqueeze(x, a)
    return x


def squeeze(x, /, axis):
    """Refuses an axis that is not of size 1, which PyTorch leaves as it is."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    long = [a for a in axes if x.shape[a] != 1]
    if long:
        raise ValueError(f"squeeze: axis {long[0]} has size {x.shape[long[0]]}, and only axes of size 1 can go")
    return flambeau.squeeze(x, axes)


def flip(x, /, *, axis=None):
    """Reverses all axes where none is given."""
    return flambeau.flip(x, tuple(range(x.ndim)) if axis is None else axis)


def permute_dims(x, /, axes):
    """PyTorch's permute."""
    return flambeau.permute(x, axes)


def reshape(x, /, shape, *, copy=None):
    """Says with `copy` whether a view will do (None), is wanted (False) or is not (True)."""
    if copy is False:
        return x.view(shape)
    return flambeau.reshape(x.clone() if copy else x, shape)


def roll(x, /, shift, *, axis=None):
    """Calls the shifts `shift`, and takes one shift for several axes."""
    if isinstance(shift, int) and not isinstance(axis, int | None):
        shift = (shift,) * len(axis)
    return flambeau.roll(x, shift, () if axis is None else axis)


def repeat(x, repeats, /, *, axis=None):
    """PyTorch's repeat_interleave; its `repeat` is the standard's tile."""
    if isinstance(repeats, Tensor):
        repeats = repeats.to(flambeau.int64)
    return flambeau.repeat_interleave(x, repeats, dim=axis)


# --- places -----------------------------------------------------------------------------------------------------------

def take(x, indices, /, *, axis=None):
    """Picks along an axis, where PyTorch's take counts in the flattened tensor."""
    if axis is None and x.ndim != 1:
        raise ValueError(f"take: an array of {x.ndim} dimensions needs an axis")
    before = range(0 if axis is None else wrap_dim(axis, x.ndim, "take"))
    return x[(*(slice(None) for _ in before), indices)]


def take_along_axis(x, indices, /, *, axis=-1):
    """PyTorch's take_along_dim, along the last axis unless another is given."""
    return flambeau.take_along_dim(x, indices, axis)


def nonzero(x, /):
    """One array of places per axis, where PyTorch gives their table."""
    if x.ndim == 0:
        raise ValueError("nonzero: an array without axes has no places; compare it with 0 instead")
    return tuple(flambeau.nonzero(x, as_tuple=True))


def where(condition, x1, x2, /):
    """Promotes by the standard, and always takes three arguments."""
    return flambeau.where(condition, *in_common(x1, x2))


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    """Looks for arrays of another dtype too, in their common one."""
    x1, x2 = in_common(x1, x2)
    return flambeau.searchsorted(x1, x2, side=side, sorter=sorter)


def isin(x1, x2, /, *, invert=False):
    """Compares in the common dtype."""
    return flambeau.isin(*in_common(x1, x2), invert=invert)


def sort(x, /, *, axis=-1, descending=False, stable=True):
    """Gives values alone, and is stable unless told otherwise."""
    return flambeau.sort(x, axis, descending, stable=stable).values


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    """Is stable unless told otherwise."""
    return flambeau.argsort(x, dim=axis, descending=descending, stable=stable)


# --- sets -------------------------------------------------------------------------------------------------------------

class UniqueAll(NamedTuple):
    """Different values, where each comes first, which of them each element is, and how often each comes."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """Different values, and how often each comes."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """Different values, and which of them each element is."""

    values: Tensor
    inverse_indices: Tensor


def _unique(x):
    """(values, inverse, counts); complex numbers, which PyTorch does not sort, in the order of their parts."""
    if not x.is_complex():
        return flambeau.unique(x, return_inverse=True, return_counts=True)
    parts, inverse, counts = flambeau.unique(flambeau.view_as_real(x.flatten()), dim=0, return_inverse=True,
                                             return_counts=True)
    return flambeau.view_as_complex(parts), inverse.reshape(x.shape), counts


def unique_all(x, /):
    """Says where each value comes first, which PyTorch's unique does not.

    >>> from flambeau import array_api as xp
    >>> xp.unique_all(xp.asarray([3, 1, 3])).indices
    tensor([1, 0])
    """
    values, inverse, counts = _unique(x)
    places = flambeau.arange(math.prod(x.shape), device=x.device)
    first = places.new_zeros(values.shape).scatter_reduce(0, inverse.flatten(), places, "amin", include_self=False)
    return UniqueAll(values, first, inverse, counts)


def unique_counts(x, /):
    """A part of unique_all, by name."""
    values, _, counts = _unique(x)
    return UniqueCounts(values, counts)


def unique_inverse(x, /):
    """A part of unique_all, by name."""
    values, inverse, _ = _unique(x)
    return UniqueInverse(values, inverse)


def unique_values(x, /):
    """PyTorch's unique, of complex numbers too."""
    return _unique(x)[0]
