"""Operators composed of views, copies and index operators."""

from .._C import bool as bool_dtype
from .creation import arange, empty_strided
from .indexing import embedding
from .joining import cat, interleave_index
from .kinds import composite
from .movement import slice


@composite("narrow_copy(Tensor self, int dim, int start, int length) -> Tensor")
def narrow_copy(self, dim, start, length):
    """A copy of narrow.

    >>> flambeau.narrow_copy(flambeau.tensor([1, 2, 3]), 0, 1, 2)
    tensor([2, 3])
    """
    return self.narrow(dim, start, length).clone()


@composite("diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
           ref="numpy.diff")
def diff(self, n=1, dim=-1, prepend=None, append=None):
    """Differences of neighbours along a dimension, n times over; prepend and append are joined on first.

    >>> flambeau.diff(flambeau.tensor([1, 4, 9]))
    tensor([3, 5])
    """
    if self.dim() == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"diff: order must be non-negative but got {n}")
    parts = [x for x in (prepend, self, append) if x is not None]
    x = cat(parts, dim) if len(parts) > 1 else self
    if n == 0:
        return x.clone()
    for _ in range(min(n, x.shape[dim])):
        after, before = slice(x, dim, 1), slice(x, dim, 0, -1)
        x = after.logical_xor(before) if x.dtype is bool_dtype else after - before
    return x


@composite("unravel_index(Tensor indices, any shape) -> Tensor[]", ref="numpy.unravel_index")
def unravel_index(indices, shape):
    """Coordinates in a tensor of that shape from positions in its flattened form, one tensor per dimension.

    >>> flambeau.unravel_index(flambeau.tensor([5]), (2, 3))
    (tensor([1]), tensor([2]))
    """
    sizes = [shape] if isinstance(shape, int) else list(shape)
    if any(n < 0 for n in sizes):
        raise ValueError(f"unravel_index: 'shape' cannot have negative values, but got {tuple(sizes)}")
    places = []
    for n in reversed(sizes):
        places.append(indices.remainder(max(n, 1)))
        indices = indices.div(max(n, 1), rounding_mode="floor")
    return tuple(reversed(places))


@composite("as_strided_scatter(Tensor self, Tensor src, int[] size, int[] stride, int? storage_offset=None) -> Tensor")
def as_strided_scatter(self, src, size, stride, storage_offset=None):
    """A copy of self with src written through as_strided(size, stride, storage_offset).

    >>> flambeau.as_strided_scatter(flambeau.zeros(3), flambeau.ones(2), (2,), (2,))
    tensor([1., 0., 1.])
    """
    copy = self.clone()
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


_BAG_MODES = ("sum", "mean", "max")


def _bags(input, offsets, include_last_offset):
    """The bag number of every index, and the number of bags."""
    if offsets is None or offsets.dim() != 1:
        raise ValueError("embedding_bag: 1-d input needs a 1-d offsets tensor")
    starts = offsets[:-1] if include_last_offset else offsets
    n = input.numel()
    if starts.numel() and int(starts[0]) != 0:
        raise ValueError(f"embedding_bag: offsets[0] has to be 0, where the first bag starts; got {int(starts[0])}")
    if starts.numel() and int(starts[-1]) > n:
        raise ValueError(f"embedding_bag: offsets[-1] is beyond the input's length ({n}); got {int(starts[-1])}")
    ends = cat([starts[1:], starts.new_full((1,), n)]) if starts.numel() else starts
    return interleave_index(ends - starts), starts.numel()


@composite("embedding_bag(Tensor input, Tensor weight, Tensor? offsets=None, float? max_norm=None, float norm_type=2.0,"
           " bool scale_grad_by_freq=False, str mode='mean', bool sparse=False, Tensor? per_sample_weights=None,"
           " bool include_last_offset=False, int? padding_idx=None) -> Tensor", namespace="nn.functional")
def embedding_bag(input, weight, offsets=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean",
                  sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=None):
    """Sums, means or maxima of embeddings over bags: the rows of a 2-d input, or the stretches of a 1-d input that
    start at `offsets`. An empty bag gives zeros.

    >>> weight = flambeau.tensor([[1., 2.], [3., 4.]])
    >>> flambeau.nn.functional.embedding_bag(flambeau.tensor([[0, 1]]), weight, mode="sum")
    tensor([[4., 6.]])
    """
    if mode not in _BAG_MODES:
        raise ValueError(f"embedding_bag: mode has to be one of sum, mean or max; got {mode!r}")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(f"embedding_bag: per_sample_weights needs mode='sum', got {mode!r}")
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError("embedding_bag: if input is 2D, then offsets has to be None")
        count = input.shape[0]
        bag = arange(count, device=input.device).repeat_interleave(input.shape[1])
        input = input.reshape(-1)
        per_sample_weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    elif input.dim() == 1:
        bag, count = _bags(input, offsets, include_last_offset)
    else:
        raise ValueError(f"embedding_bag: input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    if padding_idx is not None:
        keep = input != (padding_idx + weight.shape[0] if padding_idx < 0 else padding_idx)
        input, bag = input[keep], bag[keep]
        per_sample_weights = None if per_sample_weights is None else per_sample_weights[keep]
    rows = embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    made = weight.new_zeros((count, weight.shape[1]))
    reduce = {"sum": "sum", "mean": "mean", "max": "amax"}[mode]
    return made.scatter_reduce(0, bag.unsqueeze(-1).expand(rows.shape), rows, reduce, include_self=False)
