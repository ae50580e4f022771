"""Methods of nested tensors that are no operators: sizes, parts, printing, copying, pickling, and what they refuse."""

from .. import _C
from .._C import Tensor
from .._symbolic.ragged import RaggedSize
from .._tensor import methods as dense
from .._tensor.wrapped import own
from ..ops.kinds import OPS
from .copies import _is_nonzero, _is_same_size, _number, in_layout
from .padding import to_padded
from .printing import nested_repr
from .rules import call, is_strided
from .sequences import Jagged, Windows, sequences_of
from .tensor import NestedTensor, is_nested, joined, make, values_of


def method(function):
    """Decorator: a method of nested tensors."""
    setattr(NestedTensor, function.__name__, function)
    return function


def _property(name, get, doc):
    setattr(NestedTensor, name, property(get, doc=doc))


def _set_data(self, value):
    if not is_nested(value):
        raise RuntimeError("data: a nested tensor takes nested data, got a dense tensor")
    _C.set_like(self, value.detach(), 0)
    self._form, self._held = value._form, value._held


_property("layout", lambda self: self._form.layout, "flambeau.jagged or flambeau.strided.")
_property("is_nested", lambda self: True, "Whether the tensor is nested: yes.")
NestedTensor.data = property(lambda self: self.detach(), _set_data, doc="The same tensor without history.")


# --- sizes ------------------------------------------------------------------------------------------------------------

def _need(self, layout, name):
    if self.layout is not layout:
        raise AttributeError(f"{name}: of nested tensors of layout {layout}; this one is of layout {self.layout}")


def _shape(self):
    if is_strided(self):
        raise RuntimeError("shape: a strided nested tensor has no one size; size(dim) tells those that all parts "
                           "share, _nested_tensor_size() those of every part")
    return self._form.size(self._held)


_property("shape", _shape, "The sizes, one of them ragged.")


@method
def size(self, dim=None):
    """The sizes, or one of them; RuntimeError for what is not the same in all parts of a strided nested tensor."""
    if dim is None:
        return _shape(self)
    at = _C.wrap_dim(dim, self.dim(), "size")
    if not is_strided(self):
        return self._form.size(self._held)[at]
    if at == 0:
        return self._form.batch
    found = {s[at - 1] for s in self._form.sizes}
    if len(found) > 1:
        raise RuntimeError(f"size: dimension {dim} is irregular: the parts have {sorted(found)[:8]}")
    return found.pop()


@method
def stride(self, dim=None):
    """The strides of a jagged tensor: that of the batch is a multiple of the ragged size."""
    if is_strided(self):
        raise RuntimeError("stride: a strided nested tensor has strides for each part: _nested_tensor_strides()")
    form, steps = self._form, list(self._held.stride())
    inner = steps[form.ragged - 1]
    rest = 1
    for n in self._held.shape[:form.ragged - 1]:
        rest *= n
    found = (RaggedSize(form.sequences.size.number, inner if inner > 1 or form.ragged == 1 else rest), *steps)
    return found if dim is None else found[_C.wrap_dim(dim, self.dim(), "stride")]


@method
def numel(self):
    """How many elements the parts have."""
    return self._form.numel(self._held)


NestedTensor.nelement = numel
_property("nbytes", lambda self: self.numel() * self.element_size(), "The bytes of the parts' elements.")


@method
def __len__(self):
    return self._form.batch


@method
def is_contiguous(self, memory_format=None):
    """Whether the parts are in order, without holes."""
    return self._form.contiguous(self._held)


NestedTensor.is_same_size = _is_same_size


@method
def storage_offset(self):
    """Where the values begin in their memory."""
    return self._held.storage_offset()


@method
def data_ptr(self):
    """The address of the first of the values."""
    return self._held.data_ptr()


@method
def untyped_storage(self):
    """The memory of the values."""
    return self._held.untyped_storage()


@method
def is_pinned(self, device=None):
    """Whether the values lie in pinned memory."""
    return self._held.is_pinned(device) if device is not None else self._held.is_pinned()


@method
def pin_memory(self, device=None):
    """The tensor with its values in pinned memory."""
    held = values_of(self)
    return make(self._form, held.pin_memory() if device is None else held.pin_memory(device))


# --- parts ------------------------------------------------------------------------------------------------------------

@method
def values(self):
    """The dense values, one part after the other (flat, of a strided nested tensor). Their gradient reaches the tensor.
    """
    found = values_of(self)
    return found.detach() if found is self._held else found


@method
def offsets(self):
    """Where the parts of a jagged tensor begin among the values, and where the last ends."""
    _need(self, _C.jagged, "offsets")
    return self._form.sequences.offsets


@method
def lengths(self):
    """The lengths of the parts of a jagged tensor with holes; None of one without."""
    _need(self, _C.jagged, "lengths")
    return self._form.sequences.lengths


def _of_jagged(name, get, doc):
    def read(self):
        _need(self, _C.jagged, name)
        return get(self)

    _property(name, read, doc)


_of_jagged("_values", lambda self: self._held.detach(), "The values, without history.")
_of_jagged("_offsets", lambda self: self._form.sequences.offsets, "Where the parts begin.")
_of_jagged("_lengths", lambda self: self._form.sequences.lengths, "Their lengths, where there are holes.")
_of_jagged("_ragged_idx", lambda self: self._form.ragged, "The ragged dimension.")
_of_jagged("_min_seqlen", lambda self: self._form.sequences.least, "The length of the shortest part.")
_of_jagged("_max_seqlen", lambda self: self._form.sequences.most, "The length of the longest part.")
_of_jagged("_maybe_min_seqlen", lambda self: self._form.sequences.told_least, "The same, where it was told.")
_of_jagged("_maybe_max_seqlen", lambda self: self._form.sequences.told_most, "The same, where it was told.")


def _told(name):
    """A length that was told, as PyTorch keeps it: the size of a tensor without elements."""
    def read(self):
        told = getattr(self._form.sequences, name)
        return None if told is None else OPS["empty"]((told, 0))

    return read


_of_jagged("_min_seqlen_tensor", _told("told_least"), "The length of the shortest part, where it was told.")
_of_jagged("_max_seqlen_tensor", _told("told_most"), "The length of the longest part, where it was told.")


@method
def item(self):
    """The number of a nested tensor of one element."""
    return _number(self)


@method
def __bool__(self):
    return _is_nonzero(self)


@method
def _get_min_seqlen(self):
    return self._min_seqlen


@method
def _get_max_seqlen(self):
    return self._max_seqlen


def _table(name, which, doc):
    def table(self):
        if not is_strided(self):
            raise NotImplementedError(f"{name}: of strided nested tensors; a jagged one has offsets() and lengths()")
        return self._form.tables()[which]

    table.__name__ = table.__qualname__ = name
    table.__doc__ = doc
    method(table)


_table("_nested_tensor_size", 0, "The sizes of the parts, [parts, dimensions].")
_table("_nested_tensor_strides", 1, "Their strides.")
_table("_nested_tensor_storage_offsets", 2, "Where they begin in the values.")


@method
def to_padded_tensor(self, padding, output_size=None):
    """A dense tensor of the parts, each filled up with `padding` to the size of the largest, or to `output_size`."""
    return to_padded(self, padding, output_size)


@method
def to(self, *args, layout=None, **kwargs):
    """In another dtype, on another device, or in another layout of nested tensors."""
    if args and isinstance(args[0], _C.memory_format):
        args, layout = args[1:], args[0]
    found = Tensor.to(self, *args, **kwargs) if args or kwargs else self
    return found if layout is None else in_layout(found, layout)


@method
def _rejoined(self, parts):
    """What a function has made of each part, as one: dense where all results are of one size and the parts were not."""
    sizes = {p.shape for p in parts}
    if (len(sizes) == 1 and len({p.shape for p in self.detach().unbind()}) > 1) or not parts[0].dim():
        return OPS["stack"](parts)
    return joined(parts, self.layout, None if is_strided(self) else self._form)


@method
def view(self, *sizes):
    """The same values in other sizes; the batch and the ragged size stay."""
    return call(OPS["view"], (self, *sizes), {})


@method
def reshape(self, *sizes, shape=None):
    """The same values in other sizes; the batch and the ragged size stay."""
    return call(OPS["reshape"], (self, *(sizes or (shape,))), {})


@method
def expand(self, *size, implicit=False):
    """Dimensions of size 1 repeated without a copy; the ragged size stays."""
    return call(OPS["expand"], (self, *size), {"implicit": implicit})


# --- printing, copying ------------------------------------------------------------------------------------------------

@method
def __repr__(self, *, tensor_contents=None):
    return nested_repr(self)


@method
def __format__(self, spec):
    return object.__format__(self, spec)


@method
def __copy__(self):
    result = self.detach()
    result.__dict__.update(own(self))
    return result.requires_grad_() if self.requires_grad else result


@method
def __reduce_ex__(self, protocol):
    held = self._held.detach()
    if is_strided(self):
        form = self._form
        return _rebuild_strided, (held, form.sizes, form.strides, form.offsets, form.order, form.dims,
                                  self.requires_grad), own(self)
    s = self._form.sequences
    return _rebuild_jagged, (held, s.offsets, s.lengths, self._form.ragged, s.told_least, s.told_most,
                             self.requires_grad), own(self)


def _rebuild_strided(values, sizes, strides, offsets, order, dims, requires_grad):
    x = make(Windows(sizes, strides, offsets, order, dims), values)
    return x.requires_grad_() if requires_grad else x


def _rebuild_jagged(values, offsets, lengths, ragged, least, most, requires_grad):
    x = make(Jagged(sequences_of(offsets, lengths, least, most), ragged), values)
    return x.requires_grad_() if requires_grad else x


@method
def share_memory_(self):
    """Moves the values to memory that other processes can share."""
    for part in self._tensors():
        part.share_memory_()
    return self


@method
def _tensors(self):
    """The dense tensors that it is made of."""
    if is_strided(self):
        return [self._held]
    return [t for t in (self._held, self._form.sequences.offsets, self._form.sequences.lengths) if t is not None]


@method
def is_shared(self):
    """Whether the values lie in memory that other processes can share."""
    return self._held.is_shared()


@method
def type(self, dtype=None, non_blocking=False):
    """Without an argument the type's name; else this tensor in that dtype."""
    return dense._type(self, dtype, non_blocking)


# --- what needs one size ----------------------------------------------------------------------------------------------

def _refused(name, kind):
    def refuse(self, *args, **kwargs):
        raise kind(f"{name}: a nested tensor has parts of different sizes; use [t.{name}() for t in x.unbind()], or "
                   f"x.to_padded_tensor(0).{name}()")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Refused: the parts have different sizes."
    method(refuse)


for _name in ("numpy", "tolist", "__dlpack__", "to_dense"):
    _refused(_name, RuntimeError)
_refused("__array__", TypeError)
