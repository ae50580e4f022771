"""Dimensions of nested tensors exchanged, added, cut and joined.

What leaves the ragged dimension whole is a view of the values; the rest works on the parts.
"""

from .. import _C
from .._C import Tensor
from .._shown import shown
from .._symbolic.ragged import RaggedSize
from .._tensor.creation import tensor
from ..ops.dims import wrap_dims
from ..ops.kinds import OPS
from .along import named
from .pointwise import spread
from .rules import collected, each_part, is_strided, jagged, part_dim, part_dims, per_part, refuse, rule, strided
from .sequences import Jagged, Windows, sequences_of
from .tensor import as_jagged, is_nested, is_packed, joined, make, packed, parts_of, values_like, values_of

# --- parts ------------------------------------------------------------------------------------------------------------

@rule("unbind")
def _unbind(self, dim=0):
    if _C.wrap_dim(dim, self.dim(), "unbind"):
        raise RuntimeError(f"unbind: a nested tensor has parts along dimension 0 only, got dim={dim}")
    return tuple(parts_of(self))


@rule("select")
def _select(self, dim, index):
    dim = _C.wrap_dim(dim, self.dim(), "select")
    if dim == 0:
        return _part(self, index)
    if is_strided(self):
        view = as_jagged(self)
        if view is None or view._form.ragged == dim:
            return joined([p.select(dim - 1, index) for p in parts_of(self)], _C.strided)
        return strided(_select(view, dim, index))
    form = self._form
    if dim == form.ragged:
        return OPS["stack"]([p.select(dim - 1, index) for p in parts_of(self)])
    return make(form.on(form.ragged - (dim < form.ragged)), values_of(self).select(dim - 1, index))


def _part(x, index):
    batch = x._form.batch
    if not -batch <= index < batch:
        raise IndexError(f"select: index {index} is out of range for {batch} parts")
    if isinstance(x._form, Jagged):
        form, values = x._form, values_of(x)
        a, n = form.sequences.checked(values.shape[form.ragged - 1])[index]
        return values.narrow(form.ragged - 1, a, n)
    return parts_of(x)[index]


def batch_slice(x, start, stop, step=1):
    """The nested tensor of some parts; a view where they follow each other."""
    chosen = range(x._form.batch)[start:stop:step]
    if is_strided(x):
        form = x._form
        if form.order is None or step != 1 or not len(chosen):
            return joined([parts_of(x)[k] for k in chosen], _C.strided) if len(chosen) else \
                make(Windows([], dims=form.dims), values_of(x)[:0])
        begin, end = form.offsets[chosen[0]], (*form.offsets, form.numel(None))[chosen[-1] + 1]
        sizes = form.sizes[chosen[0]:chosen[-1] + 1]
        return make(Windows(sizes, order=form.order), values_of(x).narrow(0, begin, end - begin))
    form, values = packed(x)
    if step != 1 or not len(chosen):
        if not len(chosen):
            raise RuntimeError("slice: a jagged tensor needs at least one part, and this slice takes none")
        parts = form.parts(values)
        return make_like([parts[k] for k in chosen], form.ragged)
    offsets = form.sequences.offsets[chosen[0]:chosen[-1] + 2]
    begin, rows = int(offsets[0]), int(offsets[-1] - offsets[0])
    return make(Jagged(sequences_of(offsets - offsets[0]), form.ragged), values.narrow(form.ragged - 1, begin, rows))


def make_like(parts, ragged):
    """The jagged tensor of these parts, ragged in this dimension whatever their sizes."""
    lens = [p.shape[ragged - 1] for p in parts]
    offsets = _C.array([sum(lens[:k]) for k in range(len(lens) + 1)], _C.int64, True)
    return make(Jagged(sequences_of(offsets.to(parts[0].device)), ragged), OPS["cat"](parts, ragged - 1))


# --- views of the values ----------------------------------------------------------------------------------------------

@rule("transpose", "swapaxes", "swapdims")
def _transpose(self, dim0, dim1):
    a, b = (_C.wrap_dim(d, self.dim(), "transpose") for d in (dim0, dim1))
    order = list(range(self.dim()))
    order[a], order[b] = b, a
    return _permuted(self, order, "transpose")


@rule("permute")
def _permute(self, *dims):
    dims = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    if len(dims) != self.dim():
        raise RuntimeError(f"permute: expected {self.dim()} dimensions, got {shown(list(dims))}")
    return _permuted(self, wrap_dims(dims, self.dim(), "permute"), "permute")


def _permuted(x, order, name):
    if order[0]:
        raise (RuntimeError if is_strided(x) else ValueError)(
            f"{name}: dimension 0 of a nested tensor is the batch and stays first, got the order {order}")
    dims = [d - 1 for d in order[1:]]
    if is_strided(x):
        return x if dims == sorted(dims) else make(x._form.permuted(dims), values_of(x))
    return make(x._form.on(dims.index(x._form.ragged - 1) + 1), values_of(x).permute(dims))


@rule("movedim")
def _movedim(self, source, destination):
    source, destination = ([d] if isinstance(d, int) else list(d) for d in (source, destination))
    source, destination = (wrap_dims(d, self.dim(), "movedim") for d in (source, destination))
    order = [d for d in range(self.dim()) if d not in source]
    for to, dim in sorted(zip(destination, source, strict=True)):
        order.insert(to, dim)
    return _permuted(self, order, "movedim")


@rule("numpy_T", "t")
def _reversed(self):
    return _permuted(self, list(range(self.dim()))[::-1], "T")


@rule("mT", "adjoint")
def _mt(self):
    return _transpose(self, -2, -1)


@jagged("unsqueeze")
def _unsqueeze(self, dim):
    dim = part_dim(dim, self.dim() + 1, "unsqueeze")
    form = self._form
    return make(form.on(form.ragged + (dim < form.ragged)), values_of(self).unsqueeze(dim))


@jagged("squeeze")
def _squeeze(self, dim=None):
    form, values = self._form, values_of(self)
    if dim is None:
        dims = [d for d, n in enumerate(values.shape) if n == 1 and d != form.ragged - 1]
    else:
        dims = part_dims([dim] if isinstance(dim, int) else dim, self.dim(), "squeeze")
        if form.ragged - 1 in dims:
            raise RuntimeError(f"squeeze: dimension {form.ragged} is the ragged one, which has no one size")
        dims = [d for d in dims if values.shape[d] == 1]
    return make(form.on(form.ragged - sum(d < form.ragged - 1 for d in dims)), values.squeeze(dims) if dims else values)


def _sizes(x, sizes, name):
    """The new sizes of the values, and where among them the ragged one is; -1 keeps the size of that dimension where
    there are several."""
    sizes = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    form, old = x._form, x.shape
    if not len(sizes) or sizes[0] not in (-1, form.batch):
        raise RuntimeError(f"{name}: the batch of {form.batch} parts stays as dimension 0, got {shown(list(sizes))}")
    at = next((k for k, n in enumerate(sizes) if isinstance(n, RaggedSize)), None)
    if at is None and len(sizes) > form.ragged and sizes[form.ragged] == -1:
        at = form.ragged
    if at is None or (isinstance(sizes[at], RaggedSize) and sizes[at] != form.sequences.size):
        raise RuntimeError(f"{name}: the ragged size of {list(old)} must stay one of the sizes, as "
                           f"{shown(form.sequences.size)} or -1; got {shown(list(sizes))}")
    found = list(sizes)
    found[at] = x._held.shape[form.ragged - 1]
    return found[1:], at


@jagged("view", "reshape", "view.size")
def _reshape(self, *sizes, size=None, shape=None):
    sizes = sizes or (size if size is not None else shape,)
    if isinstance(sizes[0], _C.dtype):
        return make(self._form, values_of(self).view(sizes[0]))
    sizes, at = _sizes(self, sizes, "reshape")
    values = values_of(self)
    before, after = list(values.shape), sizes
    if sizes.count(-1) > 1:
        after = [before[k] if n == -1 and k < len(before) else n for k, n in enumerate(sizes)]
    form = self._form
    lead, old = after[:at - 1], before[:form.ragged - 1]
    if _count(lead) != _count(old) or ((not lead) != (not old) and _count(old) != 1):
        raise RuntimeError(f"reshape: sizes before and after the ragged one are not exchanged: {list(self.shape)} to "
                           f"{shown(sizes)}")
    return make(form.on(at), values.reshape(after))


def _count(sizes):
    found = 1
    for n in sizes:
        found *= n
    return found


@jagged("view_as", "reshape_as")
def _view_as(self, other):
    return _reshape(self, other.shape)


@rule("flatten")
def _flatten(self, start_dim=0, end_dim=-1):
    a, b = (part_dim(d, self.dim(), "flatten") for d in (start_dim, end_dim))
    if is_strided(self):
        view = as_jagged(self)
        if not self._form.batch:
            return self
        if view is None or a <= view._form.ragged - 1 <= b:  # of parts of one size too, some dimension is ragged
            return each_part(OPS["flatten"], (self, start_dim, end_dim), {})
        return strided(_flatten(view, start_dim, end_dim))
    form = self._form
    if a <= form.ragged - 1 <= b and a != b:
        raise RuntimeError(f"flatten: dimensions {a + 1} to {b + 1} contain the ragged one, {form.ragged}; values() "
                           "has the rows of all parts")
    return make(form.on(form.ragged - (b - a if b < form.ragged - 1 else 0)), values_of(self).flatten(a, b))


@jagged("unflatten")
def _unflatten(self, dim, sizes):
    d = part_dim(dim, self.dim(), "unflatten")
    form = self._form
    if d == form.ragged - 1:
        raise RuntimeError(f"unflatten: dimension {form.ragged} is the ragged one, which has no one size")
    found = values_of(self).unflatten(d, sizes)
    return make(form.on(form.ragged + (len(sizes) - 1 if d < form.ragged - 1 else 0)), found)


@jagged("expand", "broadcast_to")
def _expand(self, *sizes, size=None, implicit=False):
    sizes, at = _sizes(self, sizes or (size,), "expand")
    if at != self._form.ragged + len(sizes) - self._held.dim():
        raise RuntimeError(f"expand: the ragged size stays where it is, dimension {self._form.ragged}")
    return make(self._form.on(at), values_of(self).expand(sizes))


@jagged("expand_as")
def _expand_as(self, other):
    if not is_nested(self):
        return make(other._form, spread(self, other, other._form, "expand_as").expand(other._held.shape))
    return _expand(self, other.shape)


@jagged("broadcast_tensors")
def _broadcast_tensors(*tensors):
    tensors = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    first = next(x for x in tensors if is_nested(x))
    form = first._form
    values = [values_like(x, form, "broadcast_tensors") if is_nested(x) else spread(x, first, form, "broadcast_tensors")
              for x in tensors]
    return tuple(make(form, v) for v in OPS["broadcast_tensors"](*values))


# --- cut --------------------------------------------------------------------------------------------------------------

@rule("narrow")
def _narrow(self, dim, start, length):
    dim = _C.wrap_dim(dim, self.dim(), "narrow")
    if dim == 0:
        batch = self._form.batch
        start = start + batch if start < 0 else start
        if not 0 <= start <= start + length <= batch:
            raise RuntimeError(f"narrow: {length} parts from {start} are not among {batch}")
        return batch_slice(self, start, start + length)
    return _cut(self, dim, lambda x, d: x.narrow(d, start, length))


@rule("slice")
def _slice(self, dim=0, start=None, end=None, step=1):
    dim = _C.wrap_dim(dim, self.dim(), "slice")
    if dim == 0:
        return batch_slice(self, start, end, step)
    return _cut(self, dim, lambda x, d: OPS["slice"](x, d, start, end, step))


def _cut(x, dim, cut):
    """A piece of each part: a view where it is cut in a dimension that is not ragged."""
    if is_strided(x):
        view = as_jagged(x)
        if view is None or view._form.ragged == dim:
            return joined([cut(p, dim - 1) for p in parts_of(x)], _C.strided)
        return windows_of(_cut(view, dim, cut))
    form = x._form
    if dim == form.ragged:
        return make_like([cut(p, dim - 1) for p in parts_of(x)], dim)
    return make(form, cut(values_of(x), dim - 1))


def windows_of(x):
    """A jagged tensor without holes as a strided one that looks into the same memory, gaps and all."""
    form, values = x._form, values_of(x)
    if values.is_contiguous() or values._is_view() is False:
        return strided(x)
    steps, d = values.stride(), form.ragged - 1
    sizes = [[*values.shape[:d], n, *values.shape[d + 1:]] for n in form.sequences.lens]
    reach = 1 + sum((n - 1) * s for n, s in zip(values.shape, steps, strict=True)) if values.numel() else 0
    flat = values.as_strided((reach,), (1,), values.storage_offset())
    return make(Windows(sizes, [steps] * len(sizes), [a * steps[d] for a, _ in form.sequences.spans]), flat)


def _pieces(sizes_of, name):
    def compute(self, *args, **kwargs):
        given = named(OPS[name], (self, *args), kwargs)
        dim = _C.wrap_dim(given.get("dim", 0), self.dim(), name)
        form = self._form
        total = form.batch if dim == 0 else None if _is_ragged(self, dim) else _held_size(self, dim)
        if total is None:
            results = per_part(OPS[name], (), {**given, "dim": dim - 1})
            if len({len(r) for r in results}) > 1:
                raise RuntimeError(f"{name}: the parts come into different numbers of pieces, "
                                   f"{[len(r) for r in results][:8]}; cut each part, from x.unbind()")
            return collected([tuple(r) for r in results], self.layout)
        found, start = [], 0
        for n in sizes_of(total, given[OPS[name].arguments[1][0]]):
            found.append(_narrow(self, dim, start, n))
            start += n
        return tuple(found)

    compute.__doc__ = f"{name}: views, as far as the ragged dimension stays whole."
    return compute


def _is_ragged(x, dim):
    return dim in [d + 1 for d in x._form.ragged_dims()] if is_strided(x) else dim == x._form.ragged


def _held_size(x, dim):
    return x._form.sizes[0][dim - 1] if is_strided(x) else x._held.shape[dim - 1]


def _equal_pieces(total, size):
    if size <= 0:
        raise RuntimeError(f"split: expected a positive size, got {size}")
    return [min(size, total - k) for k in range(0, total, size)]


def _chunks(total, chunks):
    if chunks <= 0:
        raise RuntimeError(f"chunk: expected a positive number of chunks, got {chunks}")
    return _equal_pieces(total, max(-(-total // chunks), 1))


def _given_pieces(total, sizes):
    if sum(sizes) != total or min(sizes, default=0) < 0:
        raise RuntimeError(f"split_with_sizes: the sizes {list(sizes)} do not add up to {total}")
    return sizes


rule("chunk")(_pieces(_chunks, "chunk"))
rule("split.size")(_pieces(_equal_pieces, "split.size"))
rule("split_with_sizes")(_pieces(_given_pieces, "split_with_sizes"))


@rule("split")
def _split(self, split_size=None, dim=0, *, split_size_or_sections=None, split_sizes=None):
    split_size = next(n for n in (split_size, split_size_or_sections, split_sizes) if n is not None)
    if not isinstance(split_size, int):
        return _pieces(_given_pieces, "split_with_sizes")(self, split_size, dim)
    return _pieces(_equal_pieces, "split.size")(self, split_size, dim)


# --- joined -----------------------------------------------------------------------------------------------------------

@jagged("cat", "concat", "concatenate")
def _cat(tensors, dim=0):
    first = next(x for x in tensors if is_nested(x))
    if not all(map(is_nested, tensors)):
        tensors = [x if is_nested(x) else _expand_as(x, first) for x in tensors]
    dim = _C.wrap_dim(dim, first.dim(), "cat")
    form = first._form
    if dim == 0:
        if any(x._form.ragged != form.ragged for x in tensors):
            raise RuntimeError("cat: the tensors are ragged in different dimensions")
        return make_like([p for x in tensors for p in parts_of(x)], form.ragged)
    if dim == form.ragged:
        rows = zip(*[parts_of(x) for x in tensors], strict=True)
        return make_like([OPS["cat"](list(row), dim - 1) for row in rows], dim)
    return make(form, OPS["cat"]([values_like(x, form, "cat") for x in tensors], dim - 1))


@jagged("stack")
def _stack(tensors, dim=0):
    first = next(x for x in tensors if is_nested(x))
    dim = part_dim(dim, first.dim() + 1, "stack")
    form = first._form
    found = OPS["stack"]([values_like(x, form, "stack") for x in tensors], dim)
    return make(form.on(form.ragged + (dim < form.ragged)), found)


@jagged("repeat", "tile")
def _repeat(self, *repeats):
    repeats = list(repeats[0] if len(repeats) == 1 and not isinstance(repeats[0], int) else repeats)
    if len(repeats) != self.dim() or repeats[0] != 1:
        raise RuntimeError(f"repeat: expected {self.dim()} numbers, the first of which is 1, got {shown(repeats)}")
    if repeats[self._form.ragged] == 1:
        return make(self._form, values_of(self).repeat(repeats[1:]))
    return make_like([p.repeat(repeats[1:]) for p in parts_of(self)], self._form.ragged)


# --- indices ----------------------------------------------------------------------------------------------------------

def _entries(index, ndim):
    """The entries of an index, without an ellipsis."""
    index = list(index) if isinstance(index, tuple) else [index]
    taken = sum(i.dim() if _is_mask(i) else 1 for i in index if i is not None and i is not Ellipsis)
    if taken > ndim:
        raise IndexError(f"index: {taken} entries for a nested tensor of {ndim} dimensions")
    at = next((k for k, i in enumerate(index) if i is Ellipsis), None)
    if at is not None:
        index[at:at + 1] = [slice(None)] * (ndim - taken)
    return index


def _is_mask(i):
    return isinstance(i, Tensor) and i.dtype in (_C.bool, _C.uint8)


@rule("__getitem__")
def _getitem(self, index):
    if is_nested(index):
        return OPS["masked_select"](self, index)
    entries = _entries(index, self.dim()) or [slice(None)]
    first, rest = entries[0], entries[1:]
    if first is None:
        raise RuntimeError("index: None before the batch dimension; a nested tensor's batch stays first")
    if isinstance(first, int) and not isinstance(first, bool):
        part = _part(self, first)
        return part[tuple(rest)] if rest else part
    if isinstance(first, slice):
        x = self if first == slice(None) else batch_slice(self, first.start, first.stop, first.step or 1)
    else:
        x = _chosen(self, first)
    while rest and isinstance(rest[-1], slice) and rest[-1] == slice(None):
        rest.pop()
    return _inside(x, rest) if rest else x


def _chosen(x, index):
    """The parts at these places."""
    index = OPS["stack"](list(index)) if isinstance(index, (list, tuple)) and index and isinstance(index[0], Tensor) \
        else index
    numbers = index.nonzero().squeeze(1).tolist() if _is_mask(index) else \
        index.tolist() if isinstance(index, Tensor) else list(index)
    if not isinstance(numbers, list) or any(isinstance(k, list) for k in numbers):
        raise RuntimeError("index: the batch of a nested tensor takes one index, a slice, or a list of indices")
    parts = parts_of(x)
    return joined([parts[k] for k in numbers], _C.strided) if is_strided(x) else \
        make_like([parts[k] for k in numbers], x._form.ragged)


def _inside(x, rest):
    """An index into each part."""
    if is_strided(x) or any(not isinstance(i, (int, slice)) and i is not None for i in rest):
        results = [p[tuple(rest)] for p in parts_of(x)]
        return _stack_or_join(x, results)
    dim, ragged = 0, None
    for k, i in enumerate(rest):
        if i is None:
            continue
        if dim == x._form.ragged - 1:
            if i != slice(None):
                return _stack_or_join(x, [p[tuple(rest)] for p in parts_of(x)])
            ragged = sum(not isinstance(j, int) for j in rest[:k]) + 1
        dim += 1
    if ragged is None:
        ragged = sum(not isinstance(j, int) for j in rest) + x._form.ragged - dim
    return make(x._form.on(ragged), values_of(x)[tuple(rest)])


def _stack_or_join(x, results):
    """Dense where an index has taken the ragged dimension away and the results are of one size."""
    if not is_strided(x) and results[0].dim() < x.dim() - 1 and len({r.shape for r in results}) == 1:
        return OPS["stack"](results)
    return joined(results, x.layout)


@rule("__setitem__")
def _setitem(self, index, value):
    """Writes into the parts; without recording."""
    tensors = [self, *(v for v in [value] if isinstance(v, Tensor))]
    if _C.is_grad_enabled() and any(t.requires_grad for t in tensors):
        raise RuntimeError("index: writing into parts of a nested tensor is not recorded; write inside "
                           "`with flambeau.no_grad():`, or use where(), index_put() or as_nested_tensor(parts)")
    if is_nested(index):
        return self.copy_(OPS["masked_fill"](self, index, value))
    entries = _entries(index, self.dim()) or [slice(None)]
    parts = self._form.parts(self._held)
    first = entries[0]
    chosen = range(len(parts))[first] if isinstance(first, (int, slice)) else \
        (first.nonzero().squeeze(1) if _is_mask(first) else tensor(first)).tolist()
    one = isinstance(chosen, int)
    given = parts_of(value) if is_nested(value) else None
    for k, p in enumerate([chosen] if one else chosen):
        source = value if given is None else given[k]
        if given is None and not one and isinstance(value, Tensor) and value.dim() == self.dim():
            source = value[k if value.shape[0] > 1 else 0]
        parts[p][tuple(entries[1:]) or ...] = source
    self._bump_version()
    return None


@jagged("index_put", "index_put_")
def _index_put(self, indices, values, accumulate=False):
    """At [part, row, ...]: rows are counted in their part."""
    form, held = self._form, values_of(self)
    if form.ragged != 1:
        return refuse("index_put", " whose ragged dimension is not the first of a part", RuntimeError)
    indices = list(indices)
    if len(indices) == 1:
        which = {k % form.batch for k in indices[0].tolist()}
        spans = form.sequences.checked(held.shape[0])
        rows = OPS["cat"]([OPS["arange"](spans[k][0], sum(spans[k])) for k in sorted(which)])
        return make(form, held.index_put((rows.to(held.device),), values, accumulate))
    part, row = indices[0].long(), indices[1].long()
    counts = form.sequences.counts.to(part.device)[part]
    if bool(((row < -counts) | (row >= counts)).any()):
        raise IndexError("index_put: a row index is out of range for its part")
    rows = form.sequences.offsets[part].long() + OPS["where"](row < 0, row + counts, row)
    return make(form, held.index_put((rows, *indices[2:]), values, accumulate))


@jagged("masked_select")
def _masked_select(self, mask):
    if is_nested(mask) and is_nested(self) and is_packed(self) and is_packed(mask) and self.dim() == mask.dim() == 2:
        form, chosen = self._form, values_like(mask, self._form, "masked_select")
        counts = OPS["zeros"](form.batch, dtype=_C.int64, device=chosen.device).index_add(
            0, form.sequences.owners, chosen.long())
        zero = OPS["zeros"](1, dtype=_C.int64, device=chosen.device)
        return make(Jagged(sequences_of(OPS["cat"]([zero, counts.cumsum(0)]))), values_of(self)[chosen])
    parts = parts_of(self) if is_nested(self) else list(self)
    masks = parts_of(mask) if is_nested(mask) else list(mask)
    return make_like([OPS["masked_select"](p, m) for p, m in zip(parts, masks, strict=True)], 1)


@rule("index_select")
def _index_select(self, dim, index):
    if _C.wrap_dim(dim, self.dim(), "index_select") == 0:
        return _chosen(self, index)
    return _cut(self, _C.wrap_dim(dim, self.dim(), "index_select"), lambda x, d: OPS["index_select"](x, d, index))
