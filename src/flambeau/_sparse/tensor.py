"""What a sparse tensor is: a wrapper that has sizes but no memory, and holds where its values are and what they are.

Two graph nodes connect it with dense tensors: `values_of` (sparse to values) and `make` (values to sparse). Every
operator is written between the two with ordinary differentiable operators, so gradients of every order follow.
"""

from .. import _C
from .._C import Tensor
from .._tensor.wrapped import Wrapped
from ..ops.kinds import OPS

COO, CSR, CSC, BSR, BSC = _C.sparse_coo, _C.sparse_csr, _C.sparse_csc, _C.sparse_bsr, _C.sparse_bsc
#: layouts that compress rows; those that compress columns; those whose values are blocks
BY_ROW, BY_COLUMN, BLOCKED = (CSR, BSR), (CSC, BSC), (BSR, BSC)


class Pattern:
    """Where the values are. COO: `indices` [sparse dims, values]. Compressed: `indices` are the pointers of rows (or
    columns), `plain` the columns (or rows). `coalesced`: sorted, no place twice (always, in compressed layouts)."""

    __slots__ = ("blocksize", "coalesced", "indices", "layout", "plain", "size")

    def __init__(self, layout, indices, size, *, plain=None, coalesced=True, blocksize=(1, 1)):
        self.layout, self.indices, self.plain = layout, indices, plain
        self.size, self.coalesced, self.blocksize = _C.Size(size), coalesced, tuple(blocksize)

    @property
    def sparse_dim(self):
        """How many dimensions the pattern has."""
        return self.indices.shape[0] if self.layout is COO else 2

    @property
    def batch_dim(self):
        """How many dimensions come before those of the pattern: batches of equally many values."""
        return 0 if self.layout is COO else self.indices.dim() - 1

    @property
    def count(self):
        """How many values there are (in each batch)."""
        return self.indices.shape[1] if self.layout is COO else self.plain.shape[-1]

    def changed(self, **fields):
        """The same pattern with other fields."""
        found = {name: getattr(self, name) for name in self.__slots__} | fields
        return Pattern(found.pop("layout"), found.pop("indices"), found.pop("size"), **found)


def is_sparse(x):
    """Whether it is a tensor of a sparse layout."""
    return isinstance(x, SparseTensor)


def wrap(pattern, values):
    """The sparse tensor, without history."""
    x = Tensor._make_wrapper_subclass(SparseTensor, pattern.size, dtype=values.dtype, device=values.device)
    x._pattern, x._held = pattern, values.detach()
    return x


def make(pattern, values):
    """The sparse tensor of these values; its gradient reaches them."""
    x = wrap(pattern, values)
    if _C.is_grad_enabled() and values.requires_grad:
        _C.function_node(lambda g: (at_places(g, pattern),), (values,), (x,),
                         "SparseCooTensorWithDimsAndTensorsBackward0" if pattern.layout is COO else
                         "SparseCompressedTensorBackward0")
    return x


def values_of(x):
    """The values of a sparse tensor; their gradient is a sparse tensor of the same pattern."""
    values = x._held.detach()
    if _C.is_grad_enabled() and x.requires_grad:
        pattern = x._pattern
        _C.function_node(lambda g: (spread(pattern, g),), (x,), (values,), "ValuesBackward0")
    return values


def spread(pattern, g):
    """The gradient of a tensor, given that of its values. Where a place is in the pattern several times, what was
    computed from the tensor has seen their sum, and each has got that sum's gradient: together they count once."""
    if pattern.coalesced:
        return make(pattern, g)
    found = coalesced(make(pattern, g))
    once = coalesced(make(pattern, OPS["ones"](pattern.count, dtype=g.dtype, device=g.device).reshape(
        -1, *([1] * (g.dim() - 1))).expand(g.shape)))
    return make(found._pattern, values_of(found) / once._held)


def keys(pattern):
    """One number for each place of a COO pattern: its position among the places in row-major order."""
    if pattern.indices.shape[0] == 1:
        return pattern.indices[0]
    found = OPS["zeros"](pattern.count, dtype=_C.int64, device=pattern.indices.device)
    for row, size in zip(pattern.indices.unbind(0), pattern.size, strict=False):
        found = found * size + row
    return found


def places(found, sizes):
    """Indices [dims, places] from such numbers."""
    rows = []
    for size in reversed(sizes):
        rows.append(found % max(size, 1))
        found = found // max(size, 1)
    return OPS["stack"](rows[::-1]) if rows else OPS["zeros"]((0, len(found)), dtype=_C.int64, device=found.device)


def summed(values, index, count):
    """values[k] added up at index[k], for `count` places; truth values: whether any is true."""
    start = OPS["zeros"]((count, *values.shape[1:]), dtype=values.dtype, device=values.device)
    if values.dtype is _C.bool:
        return start.byte().index_add(0, index, values.byte()) != 0
    return start.index_add(0, index, values)


def coalesced(x):
    """The same tensor with sorted indices and no place twice."""
    pattern = x._pattern
    if pattern.coalesced:
        return x
    if pattern.count < 2:
        return make(pattern.changed(coalesced=True), values_of(x))
    if pattern.sparse_dim == 0:
        return make(pattern.changed(indices=pattern.indices[:, :1], coalesced=True),
                    values_of(x).sum(0, keepdim=True))
    found, inverse = OPS["unique"](keys(pattern), return_inverse=True)
    indices = places(found, pattern.size[:pattern.sparse_dim])
    return make(pattern.changed(indices=indices, coalesced=True), summed(values_of(x), inverse, len(found)))


def look_up(x, pattern):
    """(the values of a COO tensor at the places of another COO pattern, whether it has that place)."""
    x = coalesced(x)
    values, wanted = values_of(x), keys(pattern)
    if not len(values):
        shape = (len(wanted), *values.shape[1:])
        nothing = OPS["zeros"](shape, dtype=values.dtype, device=values.device) + values.sum(0, dtype=values.dtype)
        return nothing, OPS["zeros"](len(wanted), dtype=_C.bool, device=values.device)
    have = keys(x._pattern)
    if pattern.sparse_dim == 0:
        return values.expand(len(wanted), *values.shape[1:]), wanted.new_ones(len(wanted), dtype=_C.bool)
    at = OPS["searchsorted"](have.contiguous(), wanted.contiguous()).clamp(max=len(have) - 1)
    hit = have[at] == wanted
    found = values.index_select(0, at)
    return found.masked_fill(~hit.reshape(-1, *([1] * (values.dim() - 1))), 0), hit


def at_places(g, pattern):
    """The values of a tensor, dense or sparse, at the places of a pattern."""
    if not is_sparse(g):
        return _gathered(g, pattern)
    if g._pattern is pattern or _same_places(g._pattern, pattern):
        return values_of(g)
    if pattern.layout is COO and g._pattern.layout is COO and pattern.sparse_dim == g._pattern.sparse_dim:
        return look_up(g, pattern)[0]
    return _gathered(g.to_dense(), pattern)


def _same_places(a, b):
    return a.layout is b.layout and a.coalesced and b.coalesced and a.indices is b.indices and a.plain is b.plain \
        and a.blocksize == b.blocksize


def _gathered(dense, pattern):
    if pattern.layout is COO:
        flat = dense.unsqueeze(0).flatten(0, pattern.sparse_dim)
        return flat.index_select(0, keys(pattern))
    batch, row, column = block_places(pattern)
    found = blocks(dense, pattern)[batch, row, column]
    return found.reshape(value_shape(pattern, found.shape[3:] if pattern.layout in BLOCKED else found.shape[1:]))


def value_shape(pattern, dense):
    """The shape of the values of a compressed pattern."""
    block = pattern.blocksize if pattern.layout in BLOCKED else ()
    return (*pattern.plain.shape, *block, *dense)


def block_places(pattern):
    """(batch, row, column) of every value of a compressed pattern, in units of blocks, batches flattened."""
    pointers = pattern.indices.reshape(-1, pattern.indices.shape[-1]).long()
    plain = pattern.plain.reshape(-1, pattern.count).long() if pattern.count else \
        OPS["zeros"]((len(pointers), 0), dtype=_C.int64, device=pointers.device)
    lengths = (pointers[:, 1:] - pointers[:, :-1]).reshape(-1)
    rows = pointers.shape[1] - 1
    which = OPS["repeat_interleave"](OPS["arange"](len(lengths), device=pointers.device), lengths)
    batch = which // max(rows, 1)
    compressed = which - batch * rows
    if pattern.layout in BY_ROW:
        return batch, compressed, plain.reshape(-1)
    return batch, plain.reshape(-1), compressed


def blocks(dense, pattern):
    """A dense tensor as [batch, block row, block column, *inside a block, *dense dims]."""
    b, (high, wide) = pattern.batch_dim, pattern.blocksize
    rows, columns = dense.shape[b:b + 2]
    rest = dense.shape[b + 2:]
    count = 1
    for size in dense.shape[:b]:
        count *= size
    if pattern.layout not in BLOCKED:
        return dense.reshape(count, rows, columns, *rest)
    cut = dense.reshape(count, rows // high, high, columns // wide, wide, *rest)
    return cut.transpose(2, 3)


def dense_of(x, masked_grad=None):
    """The dense tensor. masked_grad=False: its gradient reaches `x` whole, as a dense one."""
    if masked_grad is False and _C.is_grad_enabled() and x.requires_grad:
        dense = dense_of(x.detach())
        _C.function_node(lambda g: (g,), (x,), (dense,), "ToDenseBackward0")
        return dense
    pattern, values = x._pattern, values_of(x)
    if pattern.layout is not COO:
        return _dense_of_compressed(pattern, values)
    if pattern.sparse_dim == 0:
        return values.sum(0).to(values.dtype)
    count = 1
    for size in pattern.size[:pattern.sparse_dim]:
        count *= size
    return summed(values, keys(pattern), count).reshape(pattern.size)


def _dense_of_compressed(pattern, values):
    b, (high, wide) = pattern.batch_dim, pattern.blocksize
    rows, columns = pattern.size[b] // max(high, 1), pattern.size[b + 1] // max(wide, 1)
    count = 1
    for size in pattern.size[:b]:
        count *= size
    batch, row, column = block_places(pattern)
    inner = values.shape[b + 1:]
    flat = values.reshape(count * pattern.count, *inner)
    found = summed(flat, (batch * rows + row) * columns + column, count * rows * columns)
    found = found.reshape(count, rows, columns, *inner)
    if pattern.layout in BLOCKED:
        found = found.transpose(2, 3)
    return found.reshape(pattern.size)


class SparseTensor(Wrapped):
    """A tensor of a sparse layout; `flambeau.sparse_coo_tensor` and its kind make them."""

    _contents = ("_pattern", "_held")
