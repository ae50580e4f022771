"""Operators composed of views, copies and index operators."""

from .._C import array, float64
from .._C import bool as bool_dtype
from .._shown import shown
from .creation import arange, empty, empty_strided
from .joining import cat
from .kinds import composite
from .views import copy_to_write, slice


@composite("narrow_copy(Tensor self, int dim, int start, int length) -> Tensor", out=True)
def narrow_copy(self, dim, start, length):
    """A copy of narrow.

    >>> flambeau.narrow_copy(flambeau.tensor([1, 2, 3]), 0, 1, 2)
    tensor([2, 3])
    """
    return self.narrow(dim, start, length).clone()


@composite("diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
           out=True, ref="numpy.diff")
def diff(self, n=1, dim=-1, prepend=None, append=None):
    """Differences of neighbours along a dimension, n times over; prepend and append are joined on first.

    >>> flambeau.diff(flambeau.tensor([1, 4, 9]))
    tensor([3, 5])
    """
    if self.dim() == 0:
        raise RuntimeError("diff: the tensor has no dimension to take differences along")
    if n < 0:
        raise RuntimeError(f"diff: n must not be negative, got {n}")
    if n == 0:
        return self.clone()
    parts = [x for x in (prepend, self, append) if x is not None]
    x = cat(parts, dim) if len(parts) > 1 else self
    for _ in range(min(n, x.shape[dim])):
        after, before = slice(x, dim, 1), slice(x, dim, 0, -1)
        x = after.logical_xor(before) if x.dtype is bool_dtype else after - before
    return x


@composite("range(Scalar start, Scalar? end=None, Scalar step=1, *, dtype? dtype=None, layout? layout=None,"
           " device? device=None, bool requires_grad=False, bool pin_memory=False) -> Tensor")
def range_(start, end=None, step=1, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """start, start + step, … up to and including end, of a floating dtype unless another is asked for.

    >>> flambeau.range(1, 3)
    tensor([1., 2., 3.])
    """
    start, end = (0, start) if end is None else (start, end)
    if step == 0 or (end - start) / step < 0:
        raise RuntimeError(f"range: no way from {shown(start)} to {shown(end)} by steps of {shown(step)}")
    count = int((end - start) / step) + 1
    made = empty(count, dtype=dtype, device=device, pin_memory=pin_memory)
    made.copy_(arange(count, dtype=float64, device=made.device).mul(step).add(start))
    return made.requires_grad_() if requires_grad else made


@composite("index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True)"
           " -> Tensor", inplace=True, out=True)
def index_reduce(self, dim, index, source, reduce, *, include_self=True):
    """Combines the slices of source into the slices of self that index names: "prod", "mean", "amax" or "amin".

    >>> flambeau.ones(2).index_reduce(0, flambeau.tensor([1, 1]), flambeau.tensor([2., 3.]), "prod")
    tensor([1., 6.])
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce: reduce must be 'prod', 'mean', 'amax' or 'amin', got {shown(reduce)}")
    if index.dim() > 1:
        raise RuntimeError(f"index_reduce: index must have at most 1 dimension, got shape {list(index.shape)}")
    if self.dim() == 0:
        return self.reshape(1).scatter_reduce(0, index.reshape(-1), source.reshape(-1), reduce,
                                              include_self=include_self).reshape(())
    shape = [1] * self.dim()
    shape[dim] = index.numel()
    places = index.reshape(shape).expand(source.shape)
    return self.scatter_reduce(dim, places, source, reduce, include_self=include_self)


@composite("unravel_index(Tensor indices, any shape) -> Tensor[]", ref="numpy.unravel_index")
def unravel_index(indices, shape):
    """Coordinates in a tensor of that shape from positions in its flattened form, one tensor per dimension.

    >>> flambeau.unravel_index(flambeau.tensor([5]), (2, 3))
    (tensor([1]), tensor([2]))
    """
    sizes = [shape] if isinstance(shape, int) else list(shape)
    if any(n < 0 for n in sizes):
        raise ValueError(f"unravel_index: sizes must not be negative, got shape {tuple(sizes)}")
    steps = [1]
    for n in sizes[:0:-1]:
        steps.append(steps[-1] * max(n, 1))
    steps, sizes = (array(x, None, True).to(indices) for x in (steps[::-1], [max(n, 1) for n in sizes]))
    return indices.unsqueeze(-1).div(steps, rounding_mode="floor").remainder(sizes).unbind(-1)


@composite("as_strided_scatter(Tensor self, Tensor src, int[] size, int[] stride, int? storage_offset=None) -> Tensor")
def as_strided_scatter(self, src, size, stride, storage_offset=None):
    """A copy of self with src written through as_strided(size, stride, storage_offset).

    >>> flambeau.as_strided_scatter(flambeau.zeros(3), flambeau.ones(2), (2,), (2,))
    tensor([1., 0., 1.])
    """
    copy = copy_to_write(self, src)
    copy.as_strided(size, stride, storage_offset).copy_(src)
    return copy


@composite("empty_permuted(int[] size, int[] physical_layout, *, dtype? dtype=None, layout? layout=None,"
           " device? device=None, bool requires_grad=False, bool pin_memory=False) -> Tensor")
def empty_permuted(size, physical_layout, *, dtype=None, layout=None, device=None, requires_grad=False,
                   pin_memory=False):
    """An uninitialised tensor whose dimensions lie in memory in the order of physical_layout.

    >>> flambeau.empty_permuted((2, 3), (1, 0)).stride()
    (1, 2)
    """
    if sorted(physical_layout) != list(range(len(size))):
        raise RuntimeError(f"empty_permuted: physical_layout must be a permutation of the {len(size)} dimensions, got "
                           f"{list(physical_layout)}")
    stride, step = [0] * len(size), 1
    for d in reversed(physical_layout):
        stride[d] = step
        step *= max(size[d], 1)
    return empty_strided(size, stride, dtype=dtype, device=device, requires_grad=requires_grad, pin_memory=pin_memory)
