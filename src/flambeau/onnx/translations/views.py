"""Other shapes of the same elements, parts of tensors, and tensors put together."""

from ... import _C
from ..._tensor.creation import tensor
from .._emitter import Unavailable, sizes
from .._graph import Value
from ._table import entry, translates


def to_result(g, self, wanted=None):
    """`self` in the shape of the result: as the trace knows it where one size at most is open, apart from sizes that
    stay in their place; else `wanted()`."""
    if self.shape == g.shape:
        return self
    if 0 in g.shape:
        return g.reshape(self, g.shape if all(isinstance(n, int) for n in g.shape) else wanted())
    known = [n if isinstance(n, int) else 0 if d < self.rank and self.shape[d] == n else -1
             for d, n in enumerate(g.shape)]
    if known.count(0) == 1 and -1 not in known:
        known[known.index(0)] = -1
    if known.count(-1) > 1:
        return g.reshape(self, wanted())
    return g.op("Reshape", self, known)


def reshaped(g, self, shape):
    if isinstance(shape, _C.dtype):
        raise Unavailable("a tensor's bits are not read as another dtype in ONNX; use to() for its numbers")
    return to_result(g, self, lambda: shape)


for _name in ("view", "reshape"):
    entry(_name, reshaped)


@translates("view_as", "reshape_as")
def view_as(g, self, other):
    return to_result(g, self, lambda: [g.size(other, d) for d in range(other.rank)])


@translates("flatten")
def flatten(g, self, start_dim=0, end_dim=-1):
    if not self.rank:
        return g.reshape(self, [1])
    first, last = start_dim % self.rank, end_dim % self.rank
    return to_result(g, self, lambda: [
        *(g.size(self, d) for d in range(first)),
        g.times(*(g.size(self, d) for d in range(first, last + 1))),
        *(g.size(self, d) for d in range(last + 1, self.rank))])


@translates("ravel")
def ravel(g, self):
    return g.reshape(self, [-1])


@translates("unflatten")
def unflatten(g, self, dim, sizes):
    dim %= self.rank
    return to_result(g, self, lambda: [*(g.size(self, d) for d in range(dim)), *sizes,
                                       *(g.size(self, d) for d in range(dim + 1, self.rank))])


def same(g, self, *args, **kwargs):
    """The value itself."""
    return self


for _name in ("clone", "alias", "contiguous", "detach"):
    entry(_name, same)
    entry(_name, same, parts=True)


@translates("_to_copy")
def to_copy(g, self, *, dtype=None, device=None, non_blocking=False, **layout):
    return g.cast(self, g.dtype)


def broadcast(g, value, like):
    """The value in the sizes of another tensor."""
    if value.shape is not None and value.shape == like.shape:
        return value
    return g.op("Expand", value, g.full_shape(like))


@translates("permute")
def permute(g, self, dims):
    return g.permute(self, [d % self.rank for d in dims])


@translates("transpose")
def transpose(g, self, dim0, dim1):
    order = list(range(self.rank))
    if order:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return g.permute(self, order)


@translates("t", "mT", "numpy_T")
def turned(g, self):
    order = list(range(self.rank))
    return g.permute(self, order[:-2] + order[-2:][::-1] if g.kind == "mT" else order[::-1])


@translates("movedim")
def movedim(g, self, source, destination):
    source, destination = ([d % self.rank for d in (x if isinstance(x, (tuple, list)) else [x])]
                           for x in (source, destination))
    order = [d for d in range(self.rank) if d not in source]
    for place, dim in sorted(zip(destination, source, strict=True)):
        order.insert(place, dim)
    return g.permute(self, order)


@translates("unsqueeze")
def unsqueeze(g, self, dim):
    return g.unsqueeze(self, dim % (self.rank + 1))


@translates("squeeze")
def squeeze(g, self, dim=None):
    dims = range(self.rank) if dim is None else dim if isinstance(dim, (tuple, list)) else [dim]
    gone = sorted({d % self.rank for d in dims if self.rank and self.shape[d] == 1})
    return g.squeeze(self, *gone) if gone else self


@translates("expand")
def expand(g, self, size, *, implicit=False):
    new = len(size) - self.rank
    wanted, known = [], (None,) * new + tuple(self.shape)
    for was, now, asked in zip(known, g.shape, size, strict=True):
        wanted.append(1 if was is not None and was == now else now if isinstance(now, int) else asked)
    if new == 0 and all(n == 1 for n in wanted):
        return self
    return g.expand(self, wanted)


@translates("expand_as")
def expand_as(g, self, other):
    return broadcast(g, self, other)


_FAR = 2 ** 63 - 1


@translates("slice")
def slice_(g, self, dim=0, start=None, end=None, step=1):
    if start in (None, 0) and end in (None, _FAR) and step == 1:
        return self
    return g.slice(self, 0 if start is None else start, _FAR if end is None else end, dim % self.rank, step)


@translates("narrow")
def narrow(g, self, dim, start, length):
    if not isinstance(start, Value) and start < 0:
        size = g.size(self, dim)
        start = start + size if isinstance(size, int) else g.arithmetic("Add", size, start)
    if isinstance(start, int) and isinstance(length, int):
        return g.slice(self, start, start + length, dim % self.rank)
    start = _as_index(g, start)
    return g.slice(self, start, g.arithmetic("Add", start, length), dim % self.rank)


def _as_index(g, start):
    """An index that a tensor of any shape with one element gives."""
    if not isinstance(start, Value) or start.number:
        return start
    return g.number(g.reshape(g.cast(start, _C.int64), [1]))


@translates("select")
def select(g, self, dim, index):
    if isinstance(index, Value):
        return g.op("Gather", self, g.squeeze(index, 0) if index.shape == (1,) else index, axis=dim % self.rank)
    return g.op("Gather", self, index, axis=dim % self.rank)


@translates("diagonal")
def diagonal(g, self, offset=0, dim1=0, dim2=1):
    """The elements of the two dimensions, flattened, at every (columns + 1)-th place."""
    dim1, dim2 = dim1 % self.rank, dim2 % self.rank
    rows, columns = g.size(self, dim1), g.size(self, dim2)
    if isinstance(rows, Value) or isinstance(columns, Value):
        raise Unavailable("diagonals of open sizes are not written")
    count = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    first = offset if offset >= 0 else -offset * columns
    others = [d for d in range(self.rank) if d not in (dim1, dim2)]
    x = g.permute(self, [*others, dim1, dim2])
    x = g.reshape(x, [*(g.size(x, d) for d in range(len(others))), rows * columns])
    return g.op("Gather", x, [first + k * (columns + 1) for k in range(count)], axis=len(others))


@translates("diag_embed")
def diag_embed(g, self, offset=0, dim1=-2, dim2=-1):
    rank = self.rank + 1
    dim1, dim2 = dim1 % rank, dim2 % rank
    n = self.shape[-1]
    if not isinstance(n, int):
        raise Unavailable("diagonals of open sizes are not written")
    if dim1 > dim2:
        dim1, dim2, offset = dim2, dim1, -offset
    side = n + abs(offset)
    row, column = (0, offset) if offset >= 0 else (-offset, 0)
    mask = [[1 if (j - column) == (i - row) and i >= row and j >= column else 0 for j in range(side)]
            for i in range(side)]
    pads = [0] * self.rank + [0] * self.rank
    pads[self.rank - 1], pads[-1] = row, side - n - row
    rows = g.unsqueeze(g.op("Pad", self, pads), self.rank)  # one element in each row of the result
    made = g.op("Where", g.const(tensor(mask, dtype=_C.bool).reshape(side, side)), rows, g.scalar(0, self.dtype))
    order = [*range(rank - 2)]
    order.insert(dim1, rank - 2)
    order.insert(dim2, rank - 1)
    return g.permute(made, order)


@translates("tril")
def tril(g, self, diagonal=0):
    return _triangle(g, self, diagonal, 0)


@translates("triu")
def triu(g, self, diagonal=0):
    return _triangle(g, self, diagonal, 1)


def _triangle(g, self, diagonal, upper):
    direct = self.dtype in (_C.float32, _C.float64, _C.int64, _C.bool)
    x = self if direct else g.cast(self, _C.float32 if self.dtype.is_floating_point else _C.int64)
    return g.op("Trilu", x, diagonal if isinstance(diagonal, int) else g.squeeze(diagonal, 0), upper=upper)


@translates("cat")
def cat(g, tensors, dim=0):
    kept = [g.cast(t, g.dtype) for t in tensors if t.shape != (0,) or len(g.shape) == 1]
    if len(kept) == 1:
        return kept[0]
    return g.op("Concat", *kept, axis=dim % len(g.shape))


@translates("stack")
def stack(g, tensors, dim=0):
    dim %= g.rank
    return g.op("Concat", *(g.unsqueeze(g.cast(t, g.dtype), dim) for t in tensors), axis=dim)


def _parts(g, self, lengths, dim):
    if len(lengths) == 1:
        return [self]
    return g.op("Split", self, g.listed(lengths), axis=dim % self.rank, outputs=len(lengths))


def _by_result(g, self, dim):
    """The parts that the trace has seen; where sizes are open, their lengths as numbers."""
    dim %= self.rank
    lengths = [sizes(part)[dim] for part in g.out]
    if all(isinstance(n, int) for n in lengths):
        return _parts(g, self, lengths, dim)
    return None


@translates("split")
def split(g, self, split_size, dim=0):
    if isinstance(split_size, (tuple, list)):
        return _parts(g, self, split_size, dim)
    known = _by_result(g, self, dim)
    if known is not None:
        return known
    count, size = len(g.out), g.size(self, dim)
    first = split_size
    rest = g.arithmetic("Sub", size, g.times(first, count - 1))
    return _parts(g, self, [first] * (count - 1) + [rest], dim)


@translates("split_with_sizes")
def split_with_sizes(g, self, split_sizes, dim=0):
    return _parts(g, self, split_sizes, dim)


@translates("chunk")
def chunk(g, self, chunks, dim=0):
    known = _by_result(g, self, dim)
    if known is not None:
        return known
    size, count = g.size(self, dim), len(g.out)
    each = g.arithmetic("Div", g.arithmetic("Add", size, chunks - 1), chunks)
    return _parts(g, self, [each] * (count - 1) + [g.arithmetic("Sub", size, g.times(each, count - 1))], dim)


@translates("unbind")
def unbind(g, self, dim=0):
    dim %= self.rank
    count = len(g.out)
    if count > 4:
        return [g.op("Gather", self, k, axis=dim) for k in range(count)]
    return [g.squeeze(part, dim) for part in _parts(g, self, [1] * count, dim)]


@translates("unfold")
def unfold(g, self, dimension, size, step):
    if not self.rank:
        return g.reshape(self, [1])
    dim = dimension % self.rank
    n = self.shape[dim]
    if not isinstance(n, int):
        raise Unavailable("windows along an open size are not written")
    places = [[first + k for k in range(size)] for first in range(0, n - size + 1, step)]
    windows = g.op("Gather", self, g.const(tensor(places, dtype=_C.int64).reshape(len(places), size)), axis=dim)
    order = [d for d in range(self.rank + 1) if d != dim + 1]
    return g.permute(windows, [*order, dim + 1])


@translates("as_strided")
def as_strided(g, self, size, stride, storage_offset=None):
    """Elements by their places in memory: where all sizes are known and `self` fills its memory row by row."""
    if any(isinstance(n, Value) for n in (*size, *stride)) or isinstance(storage_offset, Value) or \
            not all(isinstance(n, int) for n in self.shape):
        raise Unavailable("as_strided with open sizes has no form in ONNX; use view, expand, unfold or indexing")
    if not g.contiguous:
        raise Unavailable("as_strided of a tensor that is itself a view; make it contiguous() before, or use indexing")
    places = tensor(storage_offset or 0, dtype=_C.int64)
    for n, s in zip(size, stride, strict=True):
        places = places.unsqueeze(-1) + tensor([k * s for k in range(n)], dtype=_C.int64)
    return g.op("Gather", g.reshape(self, [-1]), g.const(places), axis=0)


@translates("repeat")
def repeat(g, self, repeats):
    missing = len(repeats) - self.rank
    x = g.unsqueeze(self, *range(missing)) if missing else self
    return g.op("Tile", x, g.listed(repeats)) if repeats else x


@translates("flip")
def flip(g, self, dims):
    dims = [d % self.rank for d in dims]
    if not dims:
        return self
    return g.op("Slice", self, [-1] * len(dims), [-_FAR] * len(dims), dims, [-1] * len(dims))


@translates("roll")
def roll(g, self, shifts, dims=()):
    if not self.rank:
        return self
    x = self if dims else g.reshape(self, [-1])
    for shift, dim in zip(shifts, dims or [0], strict=True):
        size = g.size(x, dim)
        if isinstance(size, int):
            shift = shift % size if size else 0
        if isinstance(shift, int) and shift == 0:
            continue
        cut = g.arithmetic("Sub", 0, shift) if isinstance(shift, Value) else -shift
        x_shape = x.shape
        x = g.op("Concat", g.slice(x, cut, _FAR, dim), g.slice(x, 0, cut, dim), axis=dim)
        x.shape = x_shape
    return x if dims else to_result(g, x, lambda: [g.size(self, d) for d in range(self.rank)])
