"""Methods of sparse tensors that are no operators: their parts, printing, copying, pickling, and what they refuse."""

from .. import _C
from .._tensor import methods as dense
from .._tensor.methods import TYPE_NAMES
from .._tensor.wrapped import own
from ..ops.kinds import OPS
from .convert import NAMES
from .printing import sparse_repr
from .rules import refuse, rule
from .tensor import BLOCKED, BY_COLUMN, BY_ROW, COO, Pattern, SparseTensor, coalesced, is_sparse, make, values_of, wrap


def method(function):
    """Decorator: a method of sparse tensors."""
    setattr(SparseTensor, function.__name__, function)
    return function


def _property(name, get, doc):
    setattr(SparseTensor, name, property(get, doc=doc))


_property("layout", lambda self: self._pattern.layout, "How the memory is organised.")
_property("is_sparse", lambda self: self._pattern.layout is COO, "Whether the layout is coordinates.")
_property("is_sparse_csr", lambda self: self._pattern.layout is _C.sparse_csr, "Whether the layout is compressed rows.")


def _set_data(self, value):
    if not is_sparse(value):
        raise RuntimeError(f"data: a tensor of layout {NAMES[self.layout]} takes sparse data, got {value.layout}")
    _C.set_like(self, value.detach(), 0)
    self._pattern, self._held = value._pattern, value._held


SparseTensor.data = property(lambda self: self.detach(), _set_data, doc="The same tensor without history.")


# --- parts ------------------------------------------------------------------------------------------------------------

@method
def _nnz(self):
    return self._pattern.count


@method
def _indices(self):
    if self.layout is not COO:
        raise NotImplementedError(f"_indices: a tensor of layout {NAMES[self.layout]} has compressed and plain indices")
    return self._pattern.indices


@method
def _values(self):
    return self._held.detach()


@method
def indices(self):
    """The places, [sparse dims, values], of a coalesced COO tensor."""
    _coordinates(self, "indices")
    return self._pattern.indices


def _need_coo(self, name):
    if self.layout is not COO:
        raise RuntimeError(f"{name}: expected layout sparse_coo, got {NAMES[self.layout]}")


def _coordinates(self, name):
    _need_coo(self, name)
    if not self._pattern.coalesced:
        raise RuntimeError(f"{name}: this tensor is not coalesced, so a place may come several times; call coalesce() "
                           f"first, or _{name}()")


@method
def values(self):
    """The values; of a COO tensor, once it is coalesced. Their gradient reaches the tensor."""
    if self.layout is COO:
        _coordinates(self, "values")
    return values_of(self)


def _part(name, layouts, field):
    def part(self):
        if self.layout not in layouts:
            raise RuntimeError(f"{name}: expected a layout of compressed {'rows' if layouts is BY_ROW else 'columns'}, "
                               f"got {NAMES[self.layout]}")
        return getattr(self._pattern, field)

    part.__name__ = part.__qualname__ = name
    part.__doc__ = f"The {name.replace('_', ' ')} of a compressed layout."
    method(part)


_part("crow_indices", BY_ROW, "indices")
_part("col_indices", BY_ROW, "plain")
_part("ccol_indices", BY_COLUMN, "indices")
_part("row_indices", BY_COLUMN, "plain")


@method
def is_coalesced(self):
    """Whether every place comes once, in order."""
    _need_coo(self, "is_coalesced")
    return self._pattern.coalesced


@method
def coalesce(self):
    """The same tensor with sorted indices, where no place comes twice."""
    _need_coo(self, "coalesce")
    return coalesced(self)


@method
def _coalesced_(self, coalesced):
    self._pattern = self._pattern.changed(coalesced=bool(coalesced))
    return self


@method
def sparse_dim(self):
    """How many dimensions are sparse."""
    return self._pattern.sparse_dim


@method
def dense_dim(self):
    """How many dimensions are dense: those of one value."""
    pattern = self._pattern
    return len(pattern.size) - pattern.sparse_dim - pattern.batch_dim


SparseTensor._dimI, SparseTensor._dimV = sparse_dim, dense_dim  # what programs of PyTorch's call them, too

@method
def sparse_resize_(self, size, sparse_dim, dense_dim):
    """Another size with the same values; their places must lie in it."""
    return _resized(self, size, sparse_dim, dense_dim, False)


@method
def sparse_resize_and_clear_(self, size, sparse_dim, dense_dim):
    """Another size, without values."""
    return _resized(self, size, sparse_dim, dense_dim, True)


def _resized(self, size, sparse_dim, dense_dim, clear):
    _need_coo(self, "sparse_resize_")
    if sparse_dim + dense_dim != len(size):
        raise RuntimeError(f"sparse_resize_: {sparse_dim} sparse and {dense_dim} dense dimensions do not make the size "
                           f"{list(size)}")
    held, pattern = self._held, self._pattern
    if clear or not pattern.count:
        indices = OPS["zeros"]((sparse_dim, 0), dtype=_C.int64, device=self.device)
        held = OPS["zeros"]((0, *size[sparse_dim:]), dtype=self.dtype, device=self.device)
    else:
        if (sparse_dim, tuple(size[sparse_dim:])) != (pattern.sparse_dim, tuple(self.shape[sparse_dim:])) or any(
                new < old for new, old in zip(size, self.shape, strict=True)):
            raise RuntimeError(f"sparse_resize_: a tensor with values can only grow, in its sparse dimensions; got "
                               f"{list(size)} for {list(self.shape)}")
        indices = pattern.indices
    return _became(self, Pattern(COO, indices, size, coalesced=pattern.coalesced or not held.shape[0]), held)


def _became(self, pattern, held):
    found = wrap(pattern, held)
    _C.set_like(self, found, 0)
    self._pattern, self._held = found._pattern, found._held
    return self


@method
def resize_(self, *size, memory_format=None):
    """A compressed matrix with more columns or another number of rows; rows that go take their values along."""
    if self.layout is COO or self.layout in BLOCKED or memory_format is not None:
        return refuse("resize_", (self,), why="; COO tensors have sparse_resize_")
    size = tuple(size[0] if len(size) == 1 and not isinstance(size[0], int) else size)
    across = 1 if self.layout in BY_ROW else 0
    if len(size) != 2 or self.dim() != 2 or min(size) < 0 or size[across] < self.shape[across]:
        raise RuntimeError(f"resize_: a matrix of layout {NAMES[self.layout]} and shape {list(self.shape)} keeps its "
                           f"places, so its compressed dimension alone may shrink; got {list(size)}")
    pattern = self._pattern
    start, more = pattern.indices[:size[1 - across] + 1], size[1 - across] - self.shape[1 - across]
    start = OPS["cat"]([start, start[-1:].expand(max(more, 0))])
    count = start[-1].item()
    return _became(self, pattern.changed(indices=start, plain=pattern.plain[:count], size=size), self._held[:count])


@method
def resize_as_(self, the_template, memory_format=None):
    """The size of the_template: compressed matrices of a tensor of any layout, COO tensors of a COO tensor."""
    if self.layout is not COO:
        return resize_(self, the_template.shape, memory_format=memory_format)
    if the_template.layout is not COO or memory_format is not None:
        return refuse("resize_as_", (self, the_template))
    return _resized(self, tuple(the_template.shape), the_template.sparse_dim(), the_template.dense_dim(), False)


# --- other layouts and dtypes -----------------------------------------------------------------------------------------

@method
def type(self, dtype=None, non_blocking=False):
    """Without an argument the type's name, as 'torch.sparse.FloatTensor'; else this tensor in that dtype."""
    if dtype is None:
        kind = "torch.sparse." if self.layout is COO else "torch.sparse_csr."
        return kind + TYPE_NAMES[self.dtype]
    return dense._type(self, dtype)


@method
def is_contiguous(self, memory_format=None):
    """False: a sparse tensor has no order in memory."""
    return False


@rule("equal")
@method
def equal(self, other):
    """Whether both have the same shape and elements, as a Python bool."""
    if not is_sparse(self):
        return equal(other, self)
    if self.shape != other.shape:
        return False
    return _both(self, other, lambda a, b: OPS["eq"](a, b).all().item())


@rule("allclose")
@method
def allclose(self, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether |self - other| <= atol + rtol * |other| everywhere, as a Python bool."""
    return _both(self, other, lambda a, b: OPS["isclose"](a, b, rtol, atol, equal_nan).all().item())


def _both(a, b, compare):
    """compare(values, values) where the places are the same, else of the dense tensors."""
    a, b = a.detach(), b.detach()
    if is_sparse(a) and is_sparse(b) and a.layout is b.layout and a.dtype is b.dtype:
        a, b = (coalesced(x) if x.layout is COO else x for x in (a, b))
        p, q = a._pattern, b._pattern
        if p.indices.shape == q.indices.shape and p.count == q.count and p.blocksize == q.blocksize \
                and OPS["eq"](p.indices, q.indices).all() \
                and (p.plain is None or OPS["eq"](p.plain, q.plain).all()):
            return compare(a._held, b._held)
    return compare(a.to_dense(), b.to_dense())


# --- printing, copying ------------------------------------------------------------------------------------------------

@method
def __repr__(self, *, tensor_contents=None):
    return sparse_repr(self)


@method
def __format__(self, spec):
    return object.__format__(self, spec)


@method
def __reduce_ex__(self, protocol):
    pattern = self._pattern
    return _rebuild, (str(pattern.layout).rpartition(".")[2], pattern.indices, pattern.plain, tuple(pattern.size),
                      pattern.coalesced, pattern.blocksize, self._held, self.requires_grad), own(self)


def _rebuild(layout, indices, plain, size, ordered, blocksize, values, requires_grad):
    pattern = Pattern(getattr(_C, layout), indices, size, plain=plain, coalesced=ordered, blocksize=blocksize)
    x = make(pattern, values)
    return x.requires_grad_() if requires_grad else x


@method
def share_memory_(self):
    """Moves the parts to memory that other processes can share."""
    for part in (self._pattern.indices, self._pattern.plain, self._held):
        if part is not None:
            part.share_memory_()
    return self


@method
def is_shared(self):
    """Whether the values lie in memory that other processes can share."""
    return self._held.is_shared()


# --- what needs memory in order ---------------------------------------------------------------------------------------

def _refused(name, kind, what):
    def refuse(self, *args, **kwargs):
        raise kind(f"{name}: a tensor of layout {NAMES[self.layout]} {what}; use x.to_dense(), or the parts of x")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"Refused: a sparse tensor {what}."
    method(refuse)


for _name in ("numpy", "__array__"):
    _refused(_name, TypeError, "has no array of all its elements")
for _name in ("stride", "data_ptr", "storage_offset", "tolist"):
    _refused(_name, RuntimeError, "has no memory in order")
for _name in ("untyped_storage", "storage", "__dlpack__", "view"):
    _refused(_name, NotImplementedError, "has no memory in order")
_property("nbytes", lambda self: sum(x.nbytes for x in (self._pattern.indices, self._pattern.plain, self._held)
                                     if x is not None), "The bytes of the indices and values.")


# --- functions that copy a part ---------------------------------------------------------------------------------------

def _copier(name):
    def copy(input, *, out=None):
        found = getattr(input, name)().clone()
        if out is None:
            return found
        return out.resize_(found.shape).copy_(found)

    copy.__name__ = copy.__qualname__ = name + "_copy"
    copy.__doc__ = f"A copy of x.{name}()."
    return copy


indices_copy, values_copy = _copier("indices"), _copier("values")
crow_indices_copy, col_indices_copy = _copier("crow_indices"), _copier("col_indices")
ccol_indices_copy, row_indices_copy = _copier("ccol_indices"), _copier("row_indices")
