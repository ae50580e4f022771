"""From one layout to another: dense, coordinates, compressed rows or columns, blocks of them; and by a mask."""

from operator import index as whole

from .. import _C
from .._C import Tensor
from .._shown import shown
from ..ops.kinds import OPS
from .tensor import (
    BLOCKED,
    BSC,
    BSR,
    BY_ROW,
    COO,
    CSC,
    CSR,
    Pattern,
    at_places,
    block_places,
    blocks,
    coalesced,
    is_sparse,
    make,
    places,
    summed,
    value_shape,
    values_of,
)

NAMES = {COO: "sparse_coo", CSR: "sparse_csr", CSC: "sparse_csc", BSR: "sparse_bsr", BSC: "sparse_bsc"}


def to_coo(x, sparse_dim=None):
    """In coordinates, with the first `sparse_dim` dimensions (all) sparse."""
    if not is_sparse(x):
        return _coo_of_dense(x, x.dim() if sparse_dim is None else sparse_dim)
    pattern = x._pattern
    if pattern.layout is COO:
        if sparse_dim not in (None, pattern.sparse_dim):
            raise RuntimeError(f"to_sparse: this tensor has {pattern.sparse_dim} sparse dimensions, not {sparse_dim}")
        return x
    if sparse_dim not in (None, pattern.batch_dim + 2):
        raise RuntimeError(f"to_sparse: a tensor of layout {NAMES[pattern.layout]} has {pattern.batch_dim + 2} sparse "
                           f"dimensions, not {sparse_dim}")
    return _coo_of_compressed(pattern, values_of(x))


def _coo_of_dense(x, sparse_dim):
    if not (0 < sparse_dim <= x.dim() or sparse_dim == x.dim() == 0):
        raise RuntimeError(f"to_sparse: the number of sparse dimensions must be between 1 and {x.dim()}, got "
                           f"{sparse_dim}")
    nonzero = x.detach() != 0
    if sparse_dim < x.dim():
        nonzero = nonzero.flatten(sparse_dim).any(-1)
    indices = nonzero.nonzero().t().contiguous() if sparse_dim else \
        OPS["zeros"]((0, int(nonzero.item())), dtype=_C.int64, device=x.device)
    pattern = Pattern(COO, indices, x.shape)
    return make(pattern, at_places(x, pattern) if sparse_dim else x.reshape(1)[:indices.shape[1]])


def _coo_of_compressed(pattern, values):
    batch, row, column = block_places(pattern)
    b, (high, wide) = pattern.batch_dim, pattern.blocksize
    inner = values.shape[b + 1:]
    values = values.reshape(-1, *inner)
    if pattern.layout in BLOCKED:
        ones = OPS["arange"](high * wide, device=values.device)
        row = (row.unsqueeze(1) * high + ones // wide).reshape(-1)
        column = (column.unsqueeze(1) * wide + ones % wide).reshape(-1)
        batch = batch.unsqueeze(1).expand(-1, high * wide).reshape(-1)
        values = values.reshape(-1, *inner[2:])
    indices = OPS["cat"]([places(batch, pattern.size[:b]), OPS["stack"]([row, column])])
    sorted_already = pattern.layout is CSR
    found = make(Pattern(COO, indices, pattern.size, coalesced=sorted_already), values)
    return coalesced(found)


def compressed(x, layout, blocksize=None, dense_dim=None):
    """In a compressed layout."""
    name = "to_" + NAMES[layout]
    if (layout in BLOCKED) != (blocksize is not None):
        raise RuntimeError(f"{name}: {'needs a blocksize' if layout in BLOCKED else 'takes no blocksize'}, got "
                           f"{shown(blocksize)}")
    block = (1, 1) if blocksize is None else (blocksize,) * 2 if isinstance(blocksize, int) else tuple(blocksize)
    if is_sparse(x):
        if dense_dim not in (None, x.dense_dim()):
            raise RuntimeError(f"{name}: this sparse tensor has {x.dense_dim()} dense dimensions, not {dense_dim}")
        if x.layout is layout and x._pattern.blocksize == block:
            return x
    dense_dim = x.dense_dim() if is_sparse(x) else dense_dim or 0
    b = x.dim() - dense_dim - 2
    if b < 0:
        raise IndexError(f"{name}: expected at least two sparse dimensions, got shape {list(x.shape)} with "
                           f"{dense_dim} dense ones")
    if layout in BLOCKED:
        _check_blocks(name, block, x.shape[b:b + 2])
    if not is_sparse(x):
        return _compressed_of_dense(x, layout, block, b)
    found = _compressed_of_dense(x.to_dense(), layout, block, b) if b else \
        _compressed_of_coo(coalesced(to_coo(x)), layout, block)
    return _with_indices_of(found, x._pattern.indices.dtype)


def _with_indices_of(x, dtype):
    """A compressed tensor whose indices are integers of `dtype`."""
    pattern = x._pattern
    if pattern.indices.dtype is dtype:
        return x
    return make(pattern.changed(indices=pattern.indices.to(dtype), plain=pattern.plain.to(dtype)), values_of(x))


def _check_blocks(name, block, size):
    if len(block) != 2 or min(block) < 1 or size[0] % block[0] or size[1] % block[1]:
        raise RuntimeError(f"{name}: a matrix of {size[0]} x {size[1]} cannot be cut into blocks of {shown(block)}")


def pointers(index, count):
    """Row pointers of sorted rows."""
    lengths = OPS["bincount"](index, minlength=count) if count else OPS["zeros"](0, dtype=_C.int64, device=index.device)
    return OPS["cat"]([OPS["zeros"](1, dtype=_C.int64, device=index.device), lengths.cumsum(0)])


def _convert_indices_from_coo_to_csr(input, size, *, out_int32=False):
    """Row pointers, one more than `size`, of a vector of sorted rows.

    >>> import flambeau
    >>> flambeau._convert_indices_from_coo_to_csr(flambeau.tensor([0, 0, 2]), 3)
    tensor([0, 2, 2, 3])
    """
    if input.dim() != 1:
        raise RuntimeError("_convert_indices_from_coo_to_csr: expected a vector of rows, got shape "
                           f"{list(input.shape)}")
    found = pointers(input.long(), size)
    if len(found) != size + 1:
        raise RuntimeError(f"_convert_indices_from_coo_to_csr: row {len(found) - 2} is outside of the size {size}")
    return found.to(_C.int32) if out_int32 else found


def _convert_indices_from_csr_to_coo(crow_indices, col_indices, *, out_int32=False, transpose=False):
    """[rows, columns] of row pointers and columns, which may be batches: then places in the batch come first.

    transpose: [columns, rows]. The result is of int64, or with out_int32 of int32.

    >>> import flambeau
    >>> flambeau._convert_indices_from_csr_to_coo(flambeau.tensor([0, 2, 3]), flambeau.tensor([1, 2, 0]))
    tensor([[0, 0, 1],
            [1, 2, 0]])
    """
    batch, rows = crow_indices.shape[:-1], crow_indices.shape[-1] - 1
    lengths = (crow_indices[..., 1:] - crow_indices[..., :-1]).long()
    row = OPS["arange"](rows, device=lengths.device).expand(lengths.shape)
    row = OPS["repeat_interleave"](row.reshape(-1), lengths.reshape(-1))
    found = [col_indices.reshape(-1).long(), row] if transpose else [row, col_indices.reshape(-1).long()]
    if batch:
        places = OPS["ones"](batch, device=row.device).nonzero().t()
        found = [*OPS["repeat_interleave"](places, col_indices.shape[-1], dim=1).unbind(0), *found]
    return OPS["stack"](found).to(_C.int32 if out_int32 else _C.int64)


def _compressed_of_coo(x, layout, block):
    pattern, values = x._pattern, values_of(x)
    (row, column), (rows, columns) = pattern.indices, pattern.size[:2]
    if layout is CSR:
        return make(Pattern(CSR, pointers(row, rows), pattern.size, plain=column), values)
    if layout is CSC:
        found, plain, was = OPS["csr_transpose"](pointers(row, rows), column, columns)
        return make(Pattern(CSC, found, pattern.size, plain=plain), values.index_select(0, was))
    (high, wide), inner = block, values.shape[1:]
    down, across = rows // high, columns // wide
    if layout is BSR:
        major, minor, count, other = row // high, column // wide, down, across
    else:
        major, minor, count, other = column // wide, row // high, across, down
    found, which = OPS["unique"](major * other + minor, return_inverse=True)
    place = which * (high * wide) + (row % high) * wide + column % wide
    filled = summed(values, place, len(found) * high * wide).reshape(len(found), high, wide, *inner)
    return make(Pattern(layout, pointers(found // max(other, 1), count), pattern.size, plain=found % max(other, 1),
                        blocksize=block), filled)


def _compressed_of_dense(x, layout, block, b):
    shape = Pattern(layout, OPS["zeros"]((*x.shape[:b], 1), device=x.device), x.shape, blocksize=block)
    cut = blocks(x, shape)
    nonzero = cut.detach() != 0
    if nonzero.dim() > 3:
        nonzero = nonzero.flatten(3).any(-1)
    by_row = layout in BY_ROW
    batch, major, minor = (nonzero if by_row else nonzero.transpose(1, 2)).nonzero().unbind(1)
    batches, count = nonzero.shape[0], nonzero.shape[1 if by_row else 2]
    each = OPS["bincount"](batch, minlength=batches) if batches else batch.new_zeros(0)
    if batches and (each != each[0]).any():
        raise RuntimeError(f"to_{NAMES[layout]}: every matrix of the batch must have equally many "
                           f"{'blocks' if layout in BLOCKED else 'values'}, and they have {shown(each.tolist())}")
    per = int(each[0]) if batches else 0
    lengths = OPS["bincount"](batch * count + major, minlength=batches * count).reshape(batches, count) \
        if batches * count else OPS["zeros"]((batches, count), dtype=_C.int64, device=nonzero.device)
    starts = OPS["cat"]([OPS["zeros"]((batches, 1), dtype=_C.int64, device=nonzero.device), lengths.cumsum(1)], 1)
    pattern = Pattern(layout, starts.reshape(*x.shape[:b], count + 1), x.shape,
                      plain=minor.reshape(*x.shape[:b], per), blocksize=block)
    row, column = (major, minor) if by_row else (minor, major)
    values = cut[batch, row, column]
    inner = values.shape[3:] if layout in BLOCKED else values.shape[1:]
    return make(pattern, values.reshape(value_shape(pattern, inner)))


def converted(x, pattern):
    """In the layout (and block size) of a pattern."""
    if pattern.layout is COO:
        return to_coo(x)
    return compressed(x, pattern.layout, pattern.blocksize if pattern.layout in BLOCKED else None)


def alike(x, pattern):
    """A COO result in the layout of an operand, with the integers of its indices."""
    if pattern.layout is COO:
        return x
    return _with_indices_of(converted(x, pattern), pattern.indices.dtype)


def sparse_mask(x, mask):
    """The values of `x` at the places of `mask`."""
    if not isinstance(mask, Tensor) or not is_sparse(mask):
        raise RuntimeError("sparse_mask: the mask must be sparse; a dense one multiplies")
    if x.shape != mask.shape:
        raise RuntimeError(f"sparse_mask: the mask has shape {list(mask.shape)} but the tensor {list(x.shape)}")
    return make(mask._pattern, at_places(x, mask._pattern))


def to_sparse(x, sparse_dim=None, layout=None, blocksize=None, dense_dim=None):
    """The forms of Tensor.to_sparse: (sparse_dim), or layout= with blocksize= and dense_dim=."""
    if isinstance(sparse_dim, type(COO)):
        layout, sparse_dim = sparse_dim, None
    if sparse_dim is not None and (isinstance(sparse_dim, bool) or not hasattr(sparse_dim, "__index__")):
        raise TypeError(f"to_sparse: expected a number of sparse dimensions or a layout, got {shown(sparse_dim)}")
    if layout in (None, COO):
        if blocksize is not None:
            raise RuntimeError("to_sparse: coordinates take no blocksize")
        if dense_dim is not None and sparse_dim is None:
            sparse_dim = x.dim() - dense_dim
        return to_coo(x, None if sparse_dim is None else whole(sparse_dim))
    if layout is _C.strided:
        if blocksize is not None or (dense_dim is not None and is_sparse(x)):
            raise RuntimeError("to_sparse: a strided tensor has neither blocks nor dense dimensions; pass layout alone")
        return x.to_dense() if is_sparse(x) else x
    return compressed(x, layout, blocksize, dense_dim)


