"""What a nested tensor is: a wrapper without memory of its own, that holds dense values and a form that says which part
of the batch lies where.

Two graph nodes connect it with dense tensors: `values_of` (nested to values) and `make` (values to nested). Every
operator is written between the two with ordinary differentiable operators, so gradients of every order follow, and the
gradient of a nested tensor is a nested tensor of the same form.
"""

from .. import _C
from .._C import Tensor
from .._tensor.wrapped import Wrapped
from ..ops.kinds import OPS
from .sequences import Jagged, Windows, sequences_of


def is_nested(x):
    """Whether it is a nested tensor."""
    return isinstance(x, NestedTensor)


def wrap(form, values):
    """The nested tensor, without history."""
    key = values.dim(), values.dtype, values.device
    blank = form.blanks.get(key)
    if blank is None:
        ndim, batch = form.ndim(values), form.batch
        size = (batch, batch + 1, *[1] * (ndim - 2)) if ndim > 1 else (batch,)
        blank = form.blanks[key] = Tensor._make_wrapper_subclass(NestedTensor, size, dtype=values.dtype,
                                                                 device=values.device)
    x = blank.detach()
    x._form, x._held = form, values
    return x


def make(form, values):
    """The nested tensor of these values; its gradient reaches them."""
    if not (_C.is_grad_enabled() and values.requires_grad):
        return wrap(form, values)
    x = wrap(form, values.detach())
    name = values.grad_fn.name() if values.grad_fn is not None else "NestedViewFromJaggedBackward0"
    _C.function_node(lambda g: (None if g is None else values_like(g, form),), (values,), (x,), name)
    return x


def values_of(x):
    """The values of a nested tensor; their gradient is a nested tensor of the same form."""
    held = x._held
    if not (_C.is_grad_enabled() and x.requires_grad):
        return held
    form, values = x._form, held.detach()
    _C.function_node(lambda g: (None if g is None else make(form, g),), (x,), (values,), "ValuesBackward0")
    return values


def values_like(x, form, name="backward"):
    """The values of a nested tensor in another form of the same sizes."""
    if not is_nested(x):
        raise RuntimeError(f"{name}: expected a nested tensor, got a dense one of shape {list(x.shape)}")
    if x._form.same(form):
        return values_of(x)
    return _rearranged(parts_of(x), form, name)


def _rearranged(parts, form, name):
    """Values of this form whose parts are these."""
    if isinstance(form, Windows):
        if [tuple(p.shape) for p in parts] != list(form.sizes):
            raise RuntimeError(f"{name}: the parts have other sizes: {[list(p.shape) for p in parts][:4]} and "
                               f"{[list(s) for s in form.sizes][:4]}")
        if form.order is None:
            raise RuntimeError(f"{name}: this strided nested tensor is a view with gaps; call contiguous() on it first")
        return OPS["cat"]([p.permute(form.order).reshape(-1) for p in parts]) if parts else OPS["zeros"](0)
    dim = form.ragged - 1
    if len(parts) != form.batch or [p.shape[dim] for p in parts] != form.sequences.lens:
        raise RuntimeError(f"{name}: the parts have other lengths: {[list(p.shape) for p in parts][:4]} and lengths "
                           f"{form.sequences.lens[:4]}")
    found = OPS["cat"](parts, dim)
    packed = form.sequences.packed
    if packed is form.sequences:
        return found
    shape = list(found.shape)
    shape[dim] = int(form.sequences.offsets[-1])
    return OPS["zeros"](shape, dtype=found.dtype, device=found.device).index_copy(dim, form.sequences.rows, found)


def parts_of(x):
    """The parts, as views of the values; their gradients reach the tensor."""
    return x._form.parts(values_of(x))


def is_packed(x):
    """Whether a jagged tensor's values are its parts and nothing else."""
    form = x._form
    return form.sequences.is_packed(x._held.shape[form.ragged - 1])


def packed(x):
    """(form, values) of a jagged tensor without what lies in holes."""
    form, values = x._form, values_of(x)
    dim = form.ragged - 1
    if form.sequences.is_packed(values.shape[dim]):
        return form, values
    rows = form.sequences.rows
    values = values.narrow(dim, 0, form.sequences.total) if rows is None else values.index_select(dim, rows)
    return Jagged(form.sequences.packed, form.ragged), values


def joined(parts, layout, form=None, name="nested_tensor"):
    """The nested tensor of these parts. form: a jagged one whose ragged size they have in common, if they do."""
    if layout is _C.strided:
        buffer = OPS["cat"]([p.reshape(-1) for p in parts]) if len(parts) > 1 else parts[0].reshape(-1)
        return make(Windows([p.shape for p in parts]), buffer)
    if form is not None and all(p.shape[form.ragged - 1:form.ragged] == (n,)
                                for p, n in zip(parts, form.sequences.lens, strict=True)):
        return make(Jagged(form.sequences.packed, form.ragged), OPS["cat"](parts, form.ragged - 1))
    dim = ragged_dim([p.shape for p in parts], name)
    return make(Jagged(offsets_for([p.shape[dim] for p in parts], parts[0].device), dim + 1), OPS["cat"](parts, dim))


def ragged_dim(shapes, name):
    """In which dimension the parts differ: the first where in none."""
    if not shapes[0]:
        raise RuntimeError(f"{name}: parts of the jagged layout need at least one dimension, got numbers")
    found = [d for d in range(len(shapes[0])) if len({s[d] for s in shapes}) > 1]
    if len(found) > 1:
        raise RuntimeError(f"{name}: parts of the jagged layout may differ in one dimension, these differ in "
                           f"{[d + 1 for d in found]}: {[list(s) for s in shapes[:4]]}; use layout=flambeau.strided")
    return found[0] if found else 0


def offsets_for(lens, device):
    """Sequences of these lengths, one after the other."""
    ends = [0]
    for n in lens:
        ends.append(ends[-1] + n)
    offsets = _C.array(ends, _C.int64, True)
    found = sequences_of(offsets if device.type == "cpu" else offsets.to(device), None, min(lens, default=0),
                         max(lens, default=0))
    return found


def as_jagged(x):
    """A strided nested tensor as a jagged one: a view where it can be, else a copy; None where its parts differ in
    several dimensions."""
    form, values = x._form, values_of(x)
    found = form.as_jagged(values)
    if found is not None:
        return make(*found)
    if not form.sizes or not form.dims or len(form.ragged_dims()) > 1:
        return None
    return joined(form.parts(values), _C.jagged)


def as_strided(x):
    """A jagged tensor as a strided nested one; a view where its values are in order."""
    form, values = packed(x)
    d = form.ragged - 1
    order = (d, *[k for k in range(values.dim()) if k != d])
    if d and values.is_contiguous():  # made for this dimension: its parts are not in row-major order
        order = tuple(range(values.dim()))
        return joined(form.parts(values), _C.strided)
    if d:
        values = values.permute(order)
    shape = list(values.shape[1:])
    key = "windows", d, tuple(shape)
    known = form.sequences._padded
    if key not in known:
        sizes = [[*shape[:d], n, *shape[d:]] for n in form.sequences.lens]
        known[key] = Windows(sizes, order=order)
        known[key]._jagged = (Jagged(form.sequences, form.ragged), tuple(values.shape),
                              [order.index(k) for k in range(len(order))] if d else None)
    return make(known[key], values.reshape(-1))


class NestedTensor(Wrapped):
    """A batch of tensors of different sizes; `flambeau.nested.nested_tensor` and its kind make them."""

    _contents = ("_form", "_held")


