"""Dimensions exchanged, picked, joined and added: work on indices; values are only moved."""

from .. import _C
from .._C import Tensor
from .._shown import shown
from ..ops.dims import wrap_dim, wrap_dims
from ..ops.kinds import OPS
from .convert import alike, to_coo
from .rules import refuse, rule
from .tensor import BSC, BSR, COO, CSC, CSR, is_sparse, make, values_of

_TRANSPOSED = {CSR: CSC, CSC: CSR, BSR: BSC, BSC: BSR}


# --- dimensions exchanged ---------------------------------------------------------------------------------------------

@rule("transpose", "swapaxes", "swapdims")
def _transpose(self, dim0, dim1):
    a, b = wrap_dim(dim0, self.dim(), "transpose"), wrap_dim(dim1, self.dim(), "transpose")
    if self.layout is not COO:
        return self if a == b else _transpose_compressed(self, a, b)
    order = list(range(self.dim()))
    order[a], order[b] = b, a
    return _permute(self, order)


def _transpose_compressed(self, a, b):
    """The same pointers, read as those of the other dimension."""
    pattern, first = self._pattern, self._pattern.batch_dim
    if {a, b} != {first, first + 1}:
        return refuse("transpose", (self,), why=" other than of rows and columns")
    size = list(pattern.size)
    size[a], size[b] = size[b], size[a]
    values = values_of(self)
    if pattern.layout in (BSR, BSC):
        values = values.transpose(first + 1, first + 2)
    return make(pattern.changed(layout=_TRANSPOSED[pattern.layout], size=size, blocksize=pattern.blocksize[::-1]),
                values)


@rule("t")
def _t(self):
    if self.dim() > 2:
        raise RuntimeError(f"t: expected at most 2 dimensions, got {self.dim()}")
    return self if self.dim() < 2 else _transpose(self, 0, 1)


@rule("numpy_T")
def _all(self):
    return _permute(self, range(self.dim())[::-1]) if self.layout is COO else _t(self)


@rule("mT")
def _last_two(self):
    if self.dim() < 2:
        raise RuntimeError(f"mT: expected a matrix or a batch of matrices, got shape {list(self.shape)}")
    return _transpose(self, -2, -1)


@rule("adjoint")
def _adjoint(self):
    found = _last_two(self)
    return make(found._pattern, values_of(found).conj()) if self.is_complex() else found


@rule("permute")
def _permute(self, *order, dims=None):
    dims = order if dims is None else dims
    dims = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    if len(dims) != self.dim():
        raise RuntimeError(f"permute: expected {self.dim()} dimensions, got {shown(list(dims))}")
    dims, pattern, n = wrap_dims(dims, self.dim(), "permute"), self._pattern, self.sparse_dim()
    if self.layout is not COO:
        return self if dims == list(range(self.dim())) else \
            _transpose_compressed(self, *[k for k, d in enumerate(dims) if k != d][:2])
    if sorted(dims[:n]) != list(range(n)):
        return refuse("permute", (self,), why=" that exchanges sparse and dense dimensions")
    found = pattern.changed(
        indices=pattern.indices[dims[:n]] if n else pattern.indices, size=[pattern.size[d] for d in dims],
        coalesced=(pattern.coalesced and dims[:n] == list(range(n))) or pattern.count < 2)
    return make(found, values_of(self).permute([0, *[d - n + 1 for d in dims[n:]]]))


# --- dimensions added and dropped -------------------------------------------------------------------------------------

@rule("unsqueeze")
def _unsqueeze(self, dim):
    if self.layout is not COO:
        return refuse("unsqueeze", (self,))
    dim = wrap_dim(dim, self.dim() + 1, "unsqueeze")
    pattern, n = self._pattern, self.sparse_dim()
    size = [*pattern.size[:dim], 1, *pattern.size[dim:]]
    if dim > n:
        return make(pattern.changed(size=size), values_of(self).unsqueeze(dim - n + 1))
    zeros = OPS["zeros"]((1, pattern.count), dtype=_C.int64, device=pattern.indices.device)
    indices = OPS["cat"]([pattern.indices[:dim], zeros, pattern.indices[dim:]])
    return make(pattern.changed(indices=indices, size=size), values_of(self))


@rule("squeeze")
def _squeeze(self, dim=None):
    if self.layout is not COO:
        return refuse("squeeze", (self,))
    asked = range(self.dim()) if dim is None else wrap_dims((dim,) if isinstance(dim, int) else dim, self.dim(),
                                                             "squeeze")
    gone = [d for d in asked if self.shape[d] == 1]
    return _dropped(self, gone) if gone else self


def _dropped(self, gone):
    """Without these dimensions, of size 1."""
    pattern, n = self._pattern, self.sparse_dim()
    kept = [d for d in range(n) if d not in gone]
    values = values_of(self)
    for d in sorted((d for d in gone if d >= n), reverse=True):
        values = values.squeeze(d - n + 1)
    indices = pattern.indices[kept] if kept else pattern.indices[:0]
    return make(pattern.changed(indices=indices, size=[s for d, s in enumerate(pattern.size) if d not in gone]), values)


# --- parts ------------------------------------------------------------------------------------------------------------

def _kept(self, at, indices, size):
    """The values numbered `at`, with these indices."""
    pattern = self._pattern.changed(indices=indices, size=size)
    return make(pattern, values_of(self).index_select(0, at))


@rule("select")
def _select(self, dim, index):
    if self.layout is not COO:
        return _select_compressed(self, dim, index)
    dim = wrap_dim(dim, self.dim(), "select")
    n, pattern = self.sparse_dim(), self._pattern
    size = [*pattern.size[:dim], *pattern.size[dim + 1:]]
    if not -self.shape[dim] <= index < self.shape[dim]:
        raise IndexError(f"select: index {index} is out of range for dimension {dim} of size {self.shape[dim]}")
    if dim >= n:
        return make(pattern.changed(size=size), values_of(self).select(dim - n + 1, index))
    at = (pattern.indices[dim] == index % self.shape[dim]).nonzero().squeeze(1)
    if n == 1:
        return values_of(self).index_select(0, at).sum(0, dtype=self.dtype)
    rows = [d for d in range(n) if d != dim]
    return _kept(self, at, pattern.indices[rows].index_select(1, at), size)


def _select_compressed(self, dim, index):
    """A row or column as a COO vector, a matrix of a batch as it is."""
    dim, pattern = wrap_dim(dim, self.dim(), "select"), self._pattern
    if not -self.shape[dim] <= index < self.shape[dim]:
        raise IndexError(f"select: index {index} is out of range for dimension {dim} of size {self.shape[dim]}")
    if dim >= pattern.batch_dim:
        if pattern.batch_dim:
            return refuse("select", (self,), why=" other than of batches")
        return _select(to_coo(self), dim, index)
    return make(pattern.changed(
        indices=pattern.indices.select(dim, index), plain=pattern.plain.select(dim, index),
        size=[*pattern.size[:dim], *pattern.size[dim + 1:]]), values_of(self).select(dim, index))


@rule("index_select")
def _index_select(self, dim, index):
    if not is_sparse(self) or is_sparse(index):
        return refuse("index_select", (self, index))
    if self.layout is not COO:
        return alike(_index_select(to_coo(self), dim, index).coalesce(), self._pattern)
    dim = wrap_dim(dim, self.dim(), "index_select")
    pattern, n = self._pattern, self.sparse_dim()
    index = index.reshape(-1).long()
    size = [*pattern.size[:dim], len(index), *pattern.size[dim + 1:]]
    lowest = -self.shape[dim] if dim < n else 0  # indices of sparse dimensions may count from the end
    if len(index) and not (int(index.amin()) >= lowest and int(index.amax()) < self.shape[dim]):
        raise IndexError(f"index_select: indices must lie in [{lowest}, {self.shape[dim]}), and are between "
                         f"{int(index.amin())} and {int(index.amax())}")
    if dim >= n:
        return make(pattern.changed(size=size), values_of(self).index_select(dim - n + 1, index))
    sorted_index, order = OPS["where"](index < 0, index + self.shape[dim], index).sort(stable=True)
    row = pattern.indices[dim].contiguous()
    first = OPS["searchsorted"](sorted_index, row)
    count = OPS["searchsorted"](sorted_index, row, right=True) - first
    which = OPS["repeat_interleave"](OPS["arange"](len(row), device=row.device), count)
    at = OPS["arange"](len(which), device=row.device) - (count.cumsum(0) - count)[which] + first[which]
    rows = pattern.indices.index_select(1, which)
    indices = OPS["cat"]([rows[:dim], order[at].unsqueeze(0), rows[dim + 1:]])
    found = pattern.changed(indices=indices, size=size, coalesced=False)
    return make(found, values_of(self).index_select(0, which))


@rule("narrow", "narrow_copy")
def _narrow(self, dim, start, length):
    if self.layout is not COO:
        return refuse("narrow", (self,))
    dim = wrap_dim(dim, self.dim(), "narrow")
    pattern, n = self._pattern, self.sparse_dim()
    start = int(start) + self.shape[dim] if start < 0 else int(start)
    if not 0 <= start <= self.shape[dim] or length < 0 or start + length > self.shape[dim]:
        raise RuntimeError(f"narrow: {length} from {start} on lie outside of dimension {dim} of size {self.shape[dim]}")
    size = [*pattern.size[:dim], length, *pattern.size[dim + 1:]]
    if dim >= n:
        return make(pattern.changed(size=size), values_of(self).narrow(dim - n + 1, start, length))
    row = pattern.indices[dim]
    at = ((row >= start) & (row < start + length)).nonzero().squeeze(1)
    moved = pattern.indices.index_select(1, at)
    moved[dim] -= start
    return _kept(self, at, moved, size)


@rule("unbind")
def _unbind(self, dim=0):
    return tuple(_select(self, dim, k) for k in range(self.shape[wrap_dim(dim, self.dim(), "unbind")]))


@rule("__getitem__")
def _getitem(self, key):
    """Integers, slices of step 1, None, an ellipsis, and one integer tensor per dimension."""
    keys = key if isinstance(key, tuple) else (key,)
    used = sum(k is not None and k is not Ellipsis for k in keys)
    if used > self.dim():
        raise IndexError(f"too many indices: {used} for a tensor of {self.dim()} dimensions")
    x, dim = self, 0
    for k in keys:
        if k is None:
            x, dim = _unsqueeze(x, dim), dim + 1
        elif k is Ellipsis:
            dim += self.dim() - used
        elif isinstance(k, int) and not isinstance(k, bool):
            x = _select(x, dim, k) if is_sparse(x) else x.select(dim, k)
        else:
            x, dim = _part(x, dim, k), dim + 1
    return x


def _part(x, dim, k):
    if isinstance(k, slice):
        start, stop, step = k.indices(x.shape[dim])
        if step == 1:
            return x if (start, stop) == (0, x.shape[dim]) else _narrow(x, dim, start, max(stop - start, 0))
        return _index_select(x, dim, OPS["arange"](start, stop, step, device=x.device))
    if isinstance(k, (list, Tensor)):
        k = k if isinstance(k, Tensor) else _C.array(k, None, True)
        if k.dtype is _C.bool:
            k = k.nonzero().squeeze(1)
        if k.dim() == 1:
            return _index_select(x, dim, k)
        if k.dim() == 0:
            return _select(x, dim, int(k))
    return refuse("indexing", (x,), why=f" by {shown(k)}")


@rule("__setitem__")
def _setitem(self, key, value):
    if not is_sparse(self):
        self[key] = value.to_dense()
        return
    raise TypeError("a sparse tensor cannot be assigned to by index; make a new one from indices and values")


# --- joined -----------------------------------------------------------------------------------------------------------

@rule("cat")
def _cat(tensors, dim=0):
    if not all(is_sparse(x) for x in tensors):
        return refuse("cat", (tensors,), why=" together")
    first = tensors[0]
    if any(x.layout is not COO for x in tensors):
        return alike(_cat([to_coo(x) for x in tensors], dim).coalesce(), first._pattern)
    dim, n = wrap_dim(dim, first.dim(), "cat"), first.sparse_dim()
    for x in tensors:
        if x.sparse_dim() != n or [*x.shape[:dim], *x.shape[dim + 1:]] != [*first.shape[:dim], *first.shape[dim + 1:]]:
            raise RuntimeError(f"cat: all tensors must have {n} sparse dimensions and, but for dimension {dim}, the "
                               f"shape {list(first.shape)}; got {x.sparse_dim()} and {list(x.shape)}")
    size = [*first.shape[:dim], sum(x.shape[dim] for x in tensors), *first.shape[dim + 1:]]
    indices, values, offset = [], [], 0
    for x in tensors:
        here, held = x._pattern.indices, values_of(x)
        if dim < n:
            here = here.clone()
            here[dim] += offset
        else:
            shape = list(held.shape)
            shape[dim - n + 1] = size[dim]
            held = _placed(held, shape, dim - n + 1, offset)
        offset += x.shape[dim]
        indices.append(here)
        values.append(held)
    pattern = first._pattern.changed(indices=OPS["cat"](indices, 1), size=size, coalesced=False)
    return make(pattern, OPS["cat"](values))


def _placed(values, shape, dim, offset):
    """Values with zeros before and behind along a dense dimension."""
    before, after = list(shape), list(shape)
    before[dim], after[dim] = offset, shape[dim] - offset - values.shape[dim]
    return OPS["cat"]([values.new_zeros(before), values, values.new_zeros(after)], dim)


@rule("stack")
def _stack(tensors, dim=0):
    dim = wrap_dim(dim, tensors[0].dim() + 1, "stack")
    return _cat([_unsqueeze(x, dim) for x in tensors], dim)


def _in_order(name):
    def compute(self, *args, **kwargs):
        return refuse(name, (self,), why=": its elements do not follow each other in memory", kind=RuntimeError)
    compute.__doc__ = f"{name}: refused."
    return compute


for _name in ("reshape", "flatten", "expand"):
    rule(_name)(_in_order(_name))
