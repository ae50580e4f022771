"""Reading and writing elements by index."""

import math

from ... import _C
from ..._tensor.dtypes import iinfo
from .._emitter import Unavailable
from .._graph import Value
from ._table import translates
from .pointwise import operands
from .views import broadcast

_FAR = 2 ** 63 - 1


def _int64(g, index):
    return g.shaped(g.cast(index, _C.int64), index.shape)


def _spread(g, indices):
    """(dimensions that are indexed, their index tensors): a mask of k dimensions is k tensors."""
    dims, found, dim = [], [], 0
    for index in indices:
        if index is None:
            dim += 1
        elif index.dtype in (_C.bool, _C.uint8):
            places = g.op("NonZero", index)
            for k in range(index.rank):
                part = g.op("Gather", places, k, axis=0)
                part.shape = (None,)
                dims.append(dim)
                found.append(part)
                dim += 1
        else:
            dims.append(dim)
            found.append(_int64(g, index))
            dim += 1
    return dims, found


def _known(shape):
    return all(isinstance(n, int) for n in shape)


def _broadcast_shape(shapes):
    rank = max(map(len, shapes))
    rows = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
    return tuple(next((n for n in column if n != 1), 1) for column in zip(*rows, strict=True))


def _together(g, indices):
    """The index tensors in one shape."""
    if len({v.shape for v in indices}) == 1 and _known(indices[0].shape):
        return indices, indices[0].shape
    shape = _broadcast_shape([v.shape for v in indices])
    if _known(shape):
        return [v if v.shape == shape else g.expand(v, list(shape)) for v in indices], shape
    if len(indices) == 1:
        return indices, shape
    zero = None
    for v in indices:  # the sum of zeros of each shape has the shape that they have together
        own = g.op("Mul", v, g.scalar(0, _C.int64))
        zero = own if zero is None else g.op("Add", zero, own)
    return [g.op("Add", v, zero) for v in indices], shape


def _stacked(g, indices, rank):
    """Index tensors as the last dimension of one."""
    parts = [g.unsqueeze(v, rank) for v in indices]
    return parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis=rank)


def _order(dims, rank):
    """The indexed dimensions first, then the others."""
    return [*dims, *(d for d in range(rank) if d not in dims)]


def _back(dims):
    """Where the dimensions of the index go in the result: in place of the indexed ones if those are neighbours."""
    neighbours = dims == list(range(dims[0], dims[0] + len(dims)))
    return dims[0] if neighbours else 0


@translates("index")
def index(g, self, indices):
    dims, found = _spread(g, indices)
    if not dims:
        return self
    if len(dims) == 1:
        return g.op("Gather", self, found[0], axis=dims[0])
    found, shape = _together(g, found)
    x = g.permute(self, _order(dims, self.rank))
    picked = g.op("GatherND", x, _stacked(g, found, len(shape)))
    return _index_dims_to(g, picked, len(shape), _back(dims), self.rank - len(dims))


def _index_dims_to(g, x, index_rank, place, others):
    """Moves the first dimensions, those of the index, behind `place` of the others."""
    first, rest = list(range(index_rank)), list(range(index_rank, index_rank + others))
    order = [*rest[:place], *first, *rest[place:]]
    return x if order == sorted(order) else g.op("Transpose", x, perm=order)


_REDUCTIONS = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min"}


@translates("index_put")
def index_put(g, self, indices, values, accumulate=False):
    values = g.shaped(g.cast(values, self.dtype), values.shape)
    masks = [i for i in indices if i is not None]
    if len(masks) == 1 and indices[0] is not None and masks[0].dtype is _C.bool and values.shape in ((), (1,)) and \
            not accumulate:
        mask = g.unsqueeze(masks[0], *range(masks[0].rank, self.rank)) if masks[0].rank < self.rank else masks[0]
        return g.op("Where", mask, g.reshape(values, []), self)
    dims, found = _spread(g, indices)
    if not dims:
        return broadcast(g, values, self)
    found, shape = _together(g, found)
    order, place = _order(dims, self.rank), _back(dims)
    x, rest = g.permute(self, order), [self.shape[d] for d in order[len(dims):]]
    places = _stacked(g, found, len(shape))
    layout = [*rest[:place], *shape, *rest[place:]]
    if values.shape != tuple(layout) or not _known(layout):
        wanted = g.ints(layout) if _known(layout) else g.op("Shape", _index_dims_to(
            g, g.op("GatherND", x, places), len(shape), place, len(rest)))
        values = g.op("Expand", values, wanted)
    back = [*range(place, place + len(shape)), *range(place), *range(place + len(shape), len(layout))]
    values = values if back == sorted(back) else g.op("Transpose", values, perm=back)
    made = g.op("ScatterND", x, places, values, reduction="add" if accumulate else None)
    return g.permute(g.shaped(made, x.shape), [order.index(d) for d in range(self.rank)])


@translates("index_select")
def index_select(g, self, dim, index):
    if not self.rank:
        return g.op("Gather", g.reshape(self, [1]), g.reshape(_int64(g, index), []), axis=0)
    index = _int64(g, index)
    return g.op("Gather", self, index if index.rank else g.reshape(index, [1]), axis=dim % self.rank)


def _rows(g, self, dim, index):
    """Index tensors of one dimension, as ScatterElements wants them: of the shape of what is written."""
    index = g.reshape(_int64(g, index), [-1])
    index.shape = index.shape or (None,)
    return g.unsqueeze(index, *(d for d in range(self.rank) if d != dim))


def _write_rows(g, self, dim, index, source, reduction=None):
    if not self.rank:
        one = [1]
        made = _write_rows(g, g.reshape(self, one), 0, index, g.reshape(source, one), reduction)
        return g.reshape(made, [])
    dim %= self.rank
    source = source if source.rank == self.rank else g.reshape(source, [1] * self.rank)
    places = g.op("Expand", _rows(g, self, dim, index), g.full_shape(source))
    return g.op("ScatterElements", self, places, source, axis=dim, reduction=reduction)


@translates("index_add")
def index_add(g, self, dim, index, source, *, alpha=1):
    source = g.shaped(g.cast(source, self.dtype), source.shape)
    if alpha != 1:
        source = g.shaped(g.op("Mul", source, g.of(alpha, self.dtype)), source.shape)
    return _write_rows(g, self, dim, index, source, "add")


@translates("index_copy")
def index_copy(g, self, dim, index, source):
    return _write_rows(g, self, dim, index, source)


@translates("index_fill_number", "index_fill_tensor")
def index_fill(g, self, dim, index, value):
    """The slices that are named are those whose place is among the indices."""
    value = g.of(value, self.dtype)
    if not self.rank:
        return value
    dim %= self.rank
    size = g.size(self, dim)
    index = g.reshape(_int64(g, index), [-1])
    if isinstance(size, int):  # an index may count from the end
        index = g.op("Mod", index, g.scalar(size, _C.int64))
    every = counting(g, size)
    hit = g.op("Equal", g.unsqueeze(every, 1), g.unsqueeze(index, 0))
    hit = g.cast(g.op("ReduceMax", g.cast(hit, _C.int32), [1], keepdims=0), _C.bool)
    hit = g.unsqueeze(hit, *range(1, self.rank - dim)) if self.rank - dim > 1 else hit
    return g.op("Where", hit, value, self)


def counting(g, size):
    """0, 1, … below a size."""
    if isinstance(size, int):
        return g.ints(list(range(size)))
    return g.op("Range", g.scalar(0, _C.int64), g.squeeze(size, 0), g.scalar(1, _C.int64))


def _one_dimension(g, *values):
    return [v if v.rank else g.reshape(v, [1]) for v in values]


@translates("gather")
def gather(g, self, dim, index, *, sparse_grad=False):
    x, places = _one_dimension(g, self, _int64(g, index))
    found = g.op("GatherElements", x, places, axis=dim % x.rank)
    return found if index.rank else g.reshape(found, [])


def _scatter(g, self, dim, index, src, reduction):
    x, places, src = _one_dimension(g, self, _int64(g, index), src)
    if src.shape != places.shape:  # what the index does not name is left out
        for d in range(src.rank):
            if src.shape[d] != places.shape[d]:
                src = g.slice(src, 0, g.size(places, d), d)
                src.shape = (None,) * x.rank
    made = g.op("ScatterElements", x, places, src, axis=dim % x.rank, reduction=reduction)
    return made if self.rank else g.reshape(made, [])


@translates("scatter_src", "scatter_add")
def scatter_src(g, self, dim, index, src, *, reduce=None):
    src = g.shaped(g.cast(src, self.dtype), src.shape)
    return _scatter(g, self, dim, index, src, "add" if g.kind.startswith("scatter_add") else _REDUCTIONS.get(reduce))


@translates("scatter_value")
def scatter_value(g, self, dim, index, value, *, reduce=None):
    src = broadcast(g, g.of(value, self.dtype), index)
    src.shape = index.shape
    return _scatter(g, self, dim, index, src, _REDUCTIONS.get(reduce))


@translates("scatter")
def scatter(g, self, dim, index, src, *, reduce=None):
    form = scatter_src if isinstance(src, Value) and not src.number else scatter_value
    return form(g, self, dim, index, src, reduce=reduce)


@translates("scatter_reduce")
def scatter_reduce(g, self, dim, index, src, reduce, *, include_self=True):
    plain = include_self and reduce != "mean"
    src = g.shaped(g.cast(src, self.dtype), src.shape)
    if plain:
        return _scatter(g, self, dim, index, src, _REDUCTIONS[reduce])
    ones = g.shaped(g.op("Expand", g.scalar(1, self.dtype), g.full_shape(src)), src.shape)
    zeros = g.shaped(g.op("Mul", self, g.scalar(0, self.dtype)), self.shape)
    count = _scatter(g, zeros, dim, index, ones, "add")
    start = self
    if not include_self:  # what is written to begins with what changes nothing
        touched = g.op("Greater", count, g.scalar(0, self.dtype))
        start = g.shaped(g.op("Where", touched, g.scalar(_neutral(reduce, self.dtype), self.dtype), self), self.shape)
    made = _scatter(g, start, dim, index, src, "add" if reduce == "mean" else _REDUCTIONS[reduce])
    if reduce != "mean":
        return made
    count = g.op("Add", count, g.scalar(1, self.dtype)) if include_self else g.op("Max", count, g.scalar(1, self.dtype))
    if self.dtype.is_floating_point:
        return g.op("Div", made, count)
    return g.op("Div", g.op("Sub", made, g.op("Mod", made, count)), count)


def _neutral(reduce, dtype):
    """What a reduction begins with."""
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    if dtype.is_floating_point:
        return -math.inf if reduce == "amax" else math.inf
    return iinfo(dtype).min if reduce == "amax" else iinfo(dtype).max


@translates("take")
def take(g, self, index):
    return g.op("Gather", g.op("Reshape", self, [-1]), _int64(g, index), axis=0)


@translates("put")
def put(g, self, index, source, accumulate=False):
    flat, places = g.op("Reshape", self, [-1]), g.op("Reshape", _int64(g, index), [-1])
    made = g.op("ScatterElements", flat, places, g.op("Reshape", source, [-1]), axis=0,
                reduction="add" if accumulate else None)
    return g.op("Reshape", made, g.full_shape(self))


@translates("masked_select")
def masked_select(g, self, mask):
    if self.shape != mask.shape:
        shape = g.op("Shape", g.op("Where", mask, g.scalar(0, self.dtype), self))
        self, mask = g.op("Expand", self, shape), g.op("Expand", mask, shape)
    return g.op("Compress", g.op("Reshape", self, [-1]), g.op("Reshape", mask, [-1]), axis=0)


@translates("masked_scatter")
def masked_scatter(g, self, mask, source):
    """Elements of source in turn: the place of each is how many of the mask came before."""
    mask = broadcast(g, mask, self)
    flat = g.cast(g.op("Reshape", mask, [-1]), _C.int64)
    turn = g.op("Sub", g.op("CumSum", flat, 0), g.scalar(1, _C.int64))
    turn = g.op("Max", turn, g.scalar(0, _C.int64))
    values = g.op("Gather", g.op("Reshape", source, [-1]), turn, axis=0)
    return g.op("Where", mask, g.op("Reshape", values, g.full_shape(self)), self)


@translates("nonzero_rows")
def nonzero_rows(g, self):
    rows = g.op("Transpose", _places(g, self if self.rank else g.reshape(self, [1])), perm=[1, 0])
    return rows if self.rank else g.slice(rows, 0, 0, 1)


def _places(g, self):
    direct = self.dtype in (_C.bool, _C.float32, _C.int32, _C.int64, _C.uint8)
    return g.op("NonZero", self if direct else g.cast(self, _C.bool))


@translates("nonzero_numpy")
def nonzero_numpy(g, self):
    places = _places(g, self)
    return [g.op("Gather", places, k, axis=0) for k in range(max(self.rank, 1))]


@translates("one_hot")
def one_hot(g, self, num_classes=-1):
    if isinstance(num_classes, int) and num_classes < 0:
        raise Unavailable("one_hot without num_classes has a size that values decide; give num_classes")
    every = counting(g, num_classes)
    return g.cast(g.op("Equal", g.unsqueeze(_int64(g, self), self.rank), every), _C.int64)


@translates("embedding_rows")
def embedding_rows(g, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return g.op("Gather", weight, indices if indices.dtype in (_C.int32, _C.int64) else _int64(g, indices), axis=0)


@translates("repeat_interleave_index")
def repeat_interleave_index(g, repeats, output_size=None):
    """Which row each place of the result comes from: how many rows end before it."""
    ends = g.op("CumSum", _int64(g, repeats), 0)
    total = output_size if output_size is not None else g.op("ReduceSum", _int64(g, repeats), [0], keepdims=1)
    if isinstance(total, Value):
        total.number, total.shape = True, (1,)
    after = g.op("LessOrEqual", g.unsqueeze(ends, 0), g.unsqueeze(counting(g, total), 1))
    return g.op("ReduceSum", g.cast(after, _C.int64), [1], keepdims=0)


@translates("_among")
def among(g, self, few, invert):
    (a, b), _ = _pair(g, self, few)
    same = g.op("Equal", g.unsqueeze(a, self.rank), g.op("Reshape", b, [-1]))
    hit = g.cast(g.op("ReduceSum", g.cast(same, _C.int32), [-1], keepdims=0), _C.bool)
    return g.op("Not", hit) if invert else hit


def _pair(g, a, b):
    dtype = _C.promote_types(a.dtype, b.dtype)
    return operands(g, a, b, dtype=dtype), dtype
