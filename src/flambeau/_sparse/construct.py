"""Making sparse tensors from indices and values, and what is checked of them."""

from .. import _C
from .._shown import shown
from .._tensor.creation import as_tensor
from .._tensor.overriding import of_modes
from ..ops.kinds import OPS
from .tensor import BLOCKED, BSC, BSR, BY_ROW, COO, CSC, CSR, Pattern, keys, make, wrap


class _Invariants:
    """Whether indices are checked wherever a sparse tensor is made; asked for by name, or always."""

    always = False


INVARIANTS = _Invariants()
_INDEX = (_C.int64, _C.int32)


def _values(values, dtype, device, requires_grad):
    values = as_tensor(values, dtype=dtype, device=device)
    return values.detach() if requires_grad else values


def _finished(x, requires_grad):
    return x.requires_grad_() if requires_grad else x


def _index(index, device, dtype=_C.int64):
    """As integers: an empty list reads as one of floats."""
    index = as_tensor(index, device=device)
    return index.to(dtype) if index.numel() == 0 and index.is_floating_point() else index


# --- coordinates ------------------------------------------------------------------------------------------------------

@of_modes
def sparse_coo_tensor(indices=None, values=None, size=None, *, dtype=None, device=None, pin_memory=False,
                      requires_grad=False, check_invariants=None, is_coalesced=None):
    """A sparse tensor in coordinates: values[k] is at indices[:, k]; several at one place add up.

    Without `size` the smallest that holds the indices. Values may have further, dense dimensions. Forms:
    (indices, values), (indices, values, size), and (size) for one without values.

    >>> import flambeau
    >>> x = flambeau.sparse_coo_tensor([[0, 1], [2, 0]], [3., 4.], (2, 3))
    >>> x.to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 0.]])
    """
    _no_pinning("sparse_coo_tensor", pin_memory)
    if values is None:
        return _empty_coo(indices if size is None else size, dtype, device, requires_grad)
    indices = _index(indices, device)
    values = _values(values, dtype, device, requires_grad)
    if values.dim() == 0:
        values = values.reshape(1)
    indices = indices.detach().long()
    size = _inferred(indices, values) if size is None else _sizes("sparse_coo_tensor", size)
    check_coo(indices, values, size)
    if check_invariants is not False:
        check_places(indices, size)
    if is_coalesced and (check_invariants or INVARIANTS.always):
        _check_order(indices, size)
    ordered = bool(is_coalesced) or indices.shape[1] < 2
    return _finished(make(Pattern(COO, indices, size, coalesced=ordered), values), requires_grad)


def _no_pinning(name, pin_memory):
    if pin_memory:
        raise RuntimeError(f"{name}: pin_memory=True needs a CUDA device; pinned memory is not available here")


def _sizes(name, size):
    size = tuple(int(n) for n in size)
    if min(size, default=0) < 0:
        raise RuntimeError(f"{name}: sizes must not be negative, got {shown(size)}")
    return size


def _empty_coo(size, dtype, device, requires_grad):
    return empty(_sizes("sparse_coo_tensor", size), COO, dtype, device, requires_grad)


def _inferred(indices, values):
    if indices.dim() != 2:
        raise RuntimeError(f"sparse_coo_tensor: indices must have 2 dimensions, [sparse dims, values], got shape "
                           f"{list(indices.shape)}")
    if indices.shape[1] == 0:
        return (0,) * indices.shape[0] + tuple(values.shape[1:])
    if indices.numel() and indices.amin() < 0:
        raise RuntimeError(f"sparse_coo_tensor: found negative index {int(indices.amin())}")
    found = (indices.amax(1) + 1).tolist() if indices.shape[0] else []
    return (*found, *values.shape[1:])


def check_coo(indices, values, size):
    """Refuses parts whose shapes do not fit each other and the size."""
    name = "sparse_coo_tensor"
    if indices.dim() != 2:
        raise RuntimeError(f"{name}: indices must have 2 dimensions, [sparse dims, values], got shape "
                           f"{list(indices.shape)}")
    if indices.shape[1] != values.shape[0]:
        raise RuntimeError(f"{name}: expected one index for each value, got indices of shape {list(indices.shape)} and "
                           f"values of shape {list(values.shape)}")
    if indices.shape[0] + values.dim() - 1 != len(size):
        raise RuntimeError(f"{name}: {indices.shape[0]} sparse and {values.dim() - 1} dense dimensions do not make "
                           f"the size {list(size)}")
    if tuple(values.shape[1:]) != tuple(size[indices.shape[0]:]):
        raise RuntimeError(f"{name}: values of shape {list(values.shape)} do not have the dense dimensions of the size "
                           f"{list(size)}")


def check_places(indices, size):
    """Refuses indices that lie outside of the size."""
    if indices.is_meta or indices.numel() == 0:
        return
    for d, (low, high) in enumerate(zip(indices.amin(1).tolist(), indices.amax(1).tolist(), strict=True)):
        if low < 0 or high >= size[d]:
            raise RuntimeError(f"sparse_coo_tensor: indices of dimension {d} must lie in [0, {size[d]}), and are "
                               f"between {low} and {high}")


def _check_order(indices, size):
    found = keys(Pattern(COO, indices, size))
    if len(found) > 1 and (found[1:] <= found[:-1]).any():
        raise RuntimeError("sparse_coo_tensor: is_coalesced=True, but the indices are not sorted, or one comes twice")


# --- compressed -------------------------------------------------------------------------------------------------------

_LAYOUTS = {CSR: "sparse_csr", CSC: "sparse_csc", BSR: "sparse_bsr", BSC: "sparse_bsc"}


@of_modes
def sparse_compressed_tensor(compressed_indices, plain_indices, values, size=None, *, dtype=None, layout=None,
                             device=None, pin_memory=False, requires_grad=False, check_invariants=None):
    """A sparse tensor whose rows (CSR, BSR) or columns (CSC, BSC) are given by pointers into its values.

    >>> import flambeau
    >>> x = flambeau.sparse_compressed_tensor([0, 1, 2], [1, 0], [5., 6.], layout=flambeau.sparse_csr)
    >>> x.to_dense()
    tensor([[0., 5.],
            [6., 0.]])
    """
    if layout is None:
        raise RuntimeError("sparse_compressed_tensor: layout= must be given: sparse_csr, sparse_csc, sparse_bsr or "
                           "sparse_bsc")
    if layout not in _LAYOUTS:
        raise RuntimeError(f"sparse_compressed_tensor: expected a compressed layout, got {layout}")
    name = _LAYOUTS[layout] + "_tensor"
    _no_pinning(name, pin_memory)
    pointers = _index(compressed_indices, device)
    plain = _index(plain_indices, device, pointers.dtype)
    values = _values(values, dtype, device, requires_grad)
    check_shapes(name, layout, pointers, plain, values)
    b = pointers.dim() - 1
    block = tuple(values.shape[b + 1:b + 3]) if layout in BLOCKED else (1, 1)
    size = _compressed_size(layout, pointers, plain, values, block) if size is None else _sizes(name, size)
    check_size(name, layout, pointers, values, size, block)
    if check_invariants is not False:
        check_compressed(name, layout, pointers, plain, size, block, check_invariants or INVARIANTS.always)
    x = make(Pattern(layout, pointers, size, plain=plain, blocksize=block), values)
    return _finished(x, requires_grad)


def _compressed_size(layout, pointers, plain, values, block):
    b = pointers.dim() - 1
    other = int(plain.amax()) + 1 if plain.numel() else 0
    rows = pointers.shape[-1] - 1
    found = (rows * block[0], other * block[1]) if layout in BY_ROW else (other * block[0], rows * block[1])
    return (*pointers.shape[:-1], *found, *values.shape[b + (3 if layout in BLOCKED else 1):])


def check_shapes(name, layout, pointers, plain, values):
    """The numbers of dimensions and the dtypes of the three parts."""
    blocked = 2 if layout in BLOCKED else 0
    if pointers.dim() < 1 or plain.dim() != pointers.dim() or values.dim() < pointers.dim() + blocked:
        raise RuntimeError(f"{name}: expected pointers [*batch, n + 1], plain indices [*batch, values] and values "
                           f"[*batch, values{', block' if blocked else ''}, …], got shapes {list(pointers.shape)}, "
                           f"{list(plain.shape)} and {list(values.shape)}")
    if pointers.dtype not in _INDEX or plain.dtype is not pointers.dtype:
        raise RuntimeError(f"{name}: both indices must be int64 or both int32, got {pointers.dtype} and {plain.dtype}")
    if pointers.shape[:-1] != plain.shape[:-1] or plain.shape != values.shape[:plain.dim()]:
        raise RuntimeError(f"{name}: the batches and the numbers of values differ: pointers {list(pointers.shape)}, "
                           f"plain indices {list(plain.shape)}, values {list(values.shape)}")
    if pointers.shape[-1] < 1:
        raise RuntimeError(f"{name}: there must be at least one pointer, got shape {list(pointers.shape)}")


def check_size(name, layout, pointers, values, size, block):
    """Whether the size is that of the parts."""
    b = pointers.dim() - 1
    if len(size) < b + 2:
        raise RuntimeError(f"{name}: a size of at least {b + 2} dimensions is needed, got {list(size)}")
    dense = values.shape[b + (3 if layout in BLOCKED else 1):]
    if tuple(size[:b]) != tuple(pointers.shape[:-1]) or tuple(size[b + 2:]) != tuple(dense):
        raise RuntimeError(f"{name}: the size {list(size)} does not have the batch {list(pointers.shape[:-1])} and the "
                           f"dense dimensions {list(dense)} of the parts")
    if block[0] < 1 or block[1] < 1 or size[b] % block[0] or size[b + 1] % block[1]:
        raise RuntimeError(f"{name}: a matrix of {size[b]} x {size[b + 1]} cannot be cut into blocks of {block}")
    lines = size[b] // block[0] if layout in BY_ROW else size[b + 1] // block[1]
    if pointers.shape[-1] != lines + 1:
        raise RuntimeError(f"{name}: a size of {list(size)} needs {lines + 1} pointers, got {pointers.shape[-1]}")


def check_compressed(name, layout, pointers, plain, size, block, order=True):
    """Pointers that begin at 0, never fall and end at the number of values; indices within the size.

    order: also whether indices rise within a row, so that no place has two values. Products do not need that.
    """
    if pointers.is_meta or plain.is_meta:
        return
    b, count = pointers.dim() - 1, plain.shape[-1]
    if pointers.numel():
        if (pointers[..., 0] != 0).any():
            raise RuntimeError(f"{name}: the first pointer must be 0")
        if (pointers[..., -1] != count).any():
            raise RuntimeError(f"{name}: the last pointer must be the number of values, {count}")
        steps = pointers[..., 1:] - pointers[..., :-1]
        if steps.numel() and (steps.amin() < 0):
            raise RuntimeError(f"{name}: pointers must never fall")
    other = size[b + 1] // block[1] if layout in BY_ROW else size[b] // block[0]
    if not plain.numel():
        return
    if plain.amin() < 0 or plain.amax() >= other:
        raise RuntimeError(f"{name}: plain indices must lie in [0, {other}), and are between {int(plain.amin())} and "
                           f"{int(plain.amax())}")
    if not order:
        return
    if steps.numel() and steps.amax() > other:
        raise RuntimeError(f"{name}: a row or column has {int(steps.amax())} values but only {other} places")
    _check_sorted(name, pointers.reshape(-1, pointers.shape[-1]), plain.reshape(-1, count))


def _check_sorted(name, pointers, plain):
    """Within a row, columns rise; a step down is allowed only where a row begins."""
    falls = plain[:, 1:] <= plain[:, :-1]
    if not falls.any():
        return
    batch, at = falls.nonzero().unbind(1)
    begins = OPS["zeros"]((plain.shape[0], plain.shape[1] + 1), dtype=_C.bool, device=plain.device)
    rows = OPS["arange"](len(pointers), device=pointers.device).unsqueeze(1).expand(pointers.shape)
    begins[rows.reshape(-1), pointers.long().reshape(-1)] = True
    if not begins[batch, at + 1].all():
        raise RuntimeError(f"{name}: plain indices must rise within each row (or column)")


@of_modes
def sparse_csr_tensor(crow_indices, col_indices, values, size=None, *, dtype=None, device=None, pin_memory=False,
                      requires_grad=False, check_invariants=None):
    """Compressed rows: row r has values[crow_indices[r]:crow_indices[r + 1]], in those columns.

    >>> import flambeau
    >>> flambeau.sparse_csr_tensor([0, 1, 2], [1, 0], [5., 6.]).to_dense()
    tensor([[0., 5.],
            [6., 0.]])
    """
    return sparse_compressed_tensor(crow_indices, col_indices, values, size, dtype=dtype, layout=CSR, device=device,
                                    pin_memory=pin_memory, requires_grad=requires_grad,
                                    check_invariants=check_invariants)


@of_modes
def sparse_csc_tensor(ccol_indices, row_indices, values, size=None, *, dtype=None, device=None, pin_memory=False,
                      requires_grad=False, check_invariants=None):
    """Compressed columns: column c has values[ccol_indices[c]:ccol_indices[c + 1]], in those rows.

    >>> import flambeau
    >>> flambeau.sparse_csc_tensor([0, 1, 2], [1, 0], [5., 6.]).to_dense()
    tensor([[0., 6.],
            [5., 0.]])
    """
    return sparse_compressed_tensor(ccol_indices, row_indices, values, size, dtype=dtype, layout=CSC, device=device,
                                    pin_memory=pin_memory, requires_grad=requires_grad,
                                    check_invariants=check_invariants)


@of_modes
def sparse_bsr_tensor(crow_indices, col_indices, values, size=None, *, dtype=None, device=None, pin_memory=False,
                      requires_grad=False, check_invariants=None):
    """Compressed rows of blocks: values are [values, block rows, block columns].

    >>> import flambeau
    >>> flambeau.sparse_bsr_tensor([0, 1], [1], [[[1., 2.]]], (1, 4)).to_dense()
    tensor([[0., 0., 1., 2.]])
    """
    return sparse_compressed_tensor(crow_indices, col_indices, values, size, dtype=dtype, layout=BSR, device=device,
                                    pin_memory=pin_memory, requires_grad=requires_grad,
                                    check_invariants=check_invariants)


@of_modes
def sparse_bsc_tensor(ccol_indices, row_indices, values, size=None, *, dtype=None, device=None, pin_memory=False,
                      requires_grad=False, check_invariants=None):
    """Compressed columns of blocks: values are [values, block rows, block columns].

    >>> import flambeau
    >>> flambeau.sparse_bsc_tensor([0, 0, 1], [0], [[[1., 2.]]], (1, 4)).to_dense()
    tensor([[0., 0., 1., 2.]])
    """
    return sparse_compressed_tensor(ccol_indices, row_indices, values, size, dtype=dtype, layout=BSC, device=device,
                                    pin_memory=pin_memory, requires_grad=requires_grad,
                                    check_invariants=check_invariants)


def sparse_rows(g, index, rows):
    """The gradient of a table whose rows were looked up: `g` [*index shape, columns] at the rows that `index` names."""
    pattern = Pattern(COO, index.reshape(1, -1).long(), (rows, g.shape[-1]), coalesced=index.numel() < 2)
    return make(pattern, g.reshape(index.numel(), g.shape[-1]))


def in_layout(func, args, kwargs):
    """zeros, empty and their like with a sparse `layout=`: a tensor without values. Of others none is sparse."""
    kwargs = dict(kwargs)
    layout = kwargs.pop("layout")
    if func.name not in ("zeros", "empty", "zeros_like", "empty_like") or kwargs.pop("pin_memory", False):
        raise NotImplementedError(f"{func.name}(): only layout=strided is available, got {layout}; make a sparse "
                                  "tensor with sparse_coo_tensor, or with to_sparse() from a dense one")
    found = func(*args, **kwargs)  # strided: its size, dtype and device are those asked for
    return empty(tuple(found.shape), layout, found.dtype, found.device, found.requires_grad)


def zeros_in(x, layout, dtype):
    """A tensor without values of another layout, with the batch, block and dense sizes of a compressed one."""
    pattern, b = x._pattern, x._pattern.batch_dim
    dense = pattern.size[b + 2:]
    if layout is COO:
        return wrap(Pattern(COO, OPS["zeros"]((b + 2, 0), dtype=_C.int64, device=pattern.indices.device), pattern.size),
                    OPS["zeros"]((0, *dense), dtype=dtype, device=pattern.indices.device))
    if (layout in BLOCKED) != (pattern.layout in BLOCKED):
        raise RuntimeError(f"zeros_like: no block size is known for layout {_LAYOUTS[layout]} from a tensor of layout "
                           f"{_LAYOUTS[pattern.layout]}; make it from indices")
    block = pattern.blocksize
    lines = pattern.size[b] // block[0] if layout in BY_ROW else pattern.size[b + 1] // block[1]
    batch, inner = pattern.size[:b], block if layout in BLOCKED else ()
    like = pattern.indices
    found = Pattern(layout, like.new_zeros((*batch, lines + 1)), pattern.size, plain=like.new_zeros((*batch, 0)),
                    blocksize=block)
    return wrap(found, OPS["zeros"]((*batch, 0, *inner, *dense), dtype=dtype, device=pattern.indices.device))


def gathered(g, dim, index, shape):
    """The gradient of what gather has taken: `g` at the places that `index` names along `dim`."""
    if not shape:
        return make(Pattern(COO, index.new_zeros((0, g.numel()), dtype=_C.int64), (), coalesced=False), g.reshape(-1))
    rows = list(OPS["ones_like"](index).nonzero().unbind(1)) if index.dim() else \
        [index.new_zeros(1, dtype=_C.int64)]
    rows[dim] = index.reshape(-1).long()
    return make(Pattern(COO, OPS["stack"](rows), shape, coalesced=False), g.reshape(-1))


def empty(size, layout, dtype=None, device=None, requires_grad=False):
    """A sparse tensor of a layout without values."""
    values = OPS["empty"](0, dtype=dtype, device=device)
    if layout is COO:
        indices = OPS["zeros"]((len(size), 0), dtype=_C.int64, device=values.device)
        return _finished(wrap(Pattern(COO, indices, size), values), requires_grad)
    if layout in BLOCKED or len(size) < 2:
        raise RuntimeError(f"empty: a tensor of layout {_LAYOUTS.get(layout, layout)} without values needs "
                           f"{'a block size: make it from indices' if layout in BLOCKED else 'two dimensions'}")
    batch = size[:-2]
    lines = size[-2] if layout is CSR else size[-1]
    pattern = Pattern(layout, OPS["zeros"]((*batch, lines + 1), dtype=_C.int64, device=values.device), size,
                      plain=OPS["zeros"]((*batch, 0), dtype=_C.int64, device=values.device))
    return _finished(wrap(pattern, values.reshape(*batch, 0) if batch else values), requires_grad)
