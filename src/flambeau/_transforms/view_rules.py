"""How `vmap` runs views: the same view behind the batch dimension, so that writes into it reach the original."""

from .. import _C
from ..ops.dims import wrap_dim
from ..ops.kinds import OPS
from .batched import front, rule

_view, _permute, _squeeze = OPS["reshape"], OPS["permute"], OPS["squeeze"]


def shift(dim, ndim, name):
    """The dimension of a logical tensor with `ndim` dimensions, counted behind the batch."""
    return wrap_dim(dim, ndim, name) + 1


def ones_in_front(value, ndim):
    """The value with ones behind its batch, so that it has `ndim` logical dimensions."""
    missing = ndim + 1 - value.ndim
    return _view(value, (value.shape[0], *(1,) * missing, *value.shape[1:])) if missing > 0 else value


@rule("conj", "real", "imag", "view_as_real", "alias", "clone", "_to_copy")
def same(op, size, values, marks, options):
    if options.get("memory_format") not in (None, _C.preserve_format):
        return NotImplemented
    return op(*values, **options)


@rule("contiguous")
def contiguous(op, size, values, marks, options):
    if options.get("memory_format") not in (None, _C.contiguous_format):
        return NotImplemented
    return op(values[0])


@rule("view_as_complex", "view.dtype", "mT")
def last_dimensions(op, size, values, marks, options):
    if values[0].ndim < (3 if op.name == "mT" else 2):
        return NotImplemented
    return op(*values, **options)


def _sized(shape, size):
    """The shape behind the batch; -1 is resolved by the op, or here when the batch is empty."""
    return (size, *shape)


@rule("view.size", "reshape")
def view(op, size, values, marks, options):
    value, shape = values
    if size == 0 and -1 in shape:
        return NotImplemented
    return op(value, _sized(shape, size))


@rule("view_as", "reshape_as")
def view_as(op, size, values, marks, options):
    shape = values[1].shape[1:] if marks[1] else values[1].shape
    kind = OPS["view.size"] if op.name == "view_as" else _view
    return kind(front(values[0], marks[0], size), _sized(shape, size))


@rule("expand", "expand_as")
def expand(op, size, values, marks, options):
    shape = values[1]
    if op.name == "expand_as":
        shape = shape.shape[1:] if marks[1] else shape.shape
    value = front(values[0], marks[0], size)
    if len(shape) < value.ndim - 1:
        raise RuntimeError(f"expand: {len(shape)} sizes are too few for a tensor of {value.ndim - 1} dimensions; -1 "
                           "keeps the size of a dimension")
    return OPS["expand"](ones_in_front(value, len(shape)), _sized(shape, size), **options)


@rule("flatten")
def flatten(op, size, values, marks, options):
    value, start, end = values
    ndim = value.ndim - 1
    if ndim == 0:
        return _view(value, (size, 1))
    return op(value, shift(start, ndim, "flatten"), shift(end, ndim, "flatten"))


@rule("ravel")
def ravel(op, size, values, marks, options):
    return OPS["flatten"](values[0], 1) if values[0].ndim > 1 else _view(values[0], (size, 1))


@rule("unflatten")
def unflatten(op, size, values, marks, options):
    return op(values[0], shift(values[1], values[0].ndim - 1, "unflatten"), values[2])


@rule("permute")
def permute(op, size, values, marks, options):
    ndim = values[0].ndim - 1
    if len(values[1]) != ndim:
        raise RuntimeError(f"permute: the tensor has {ndim} dimensions, but {len(values[1])} were given")
    return op(values[0], (0, *(shift(d, ndim, "permute") for d in values[1])))


@rule("t")
def t(op, size, values, marks, options):
    if values[0].ndim > 3:
        raise RuntimeError(f"t: expected at most 2 dimensions, got {values[0].ndim - 1}; transpose(i, j) or mT name "
                           "the two to swap")
    return OPS["transpose"](values[0], 1, 2) if values[0].ndim == 3 else OPS["alias"](values[0])


@rule("numpy_T")
def reverse(op, size, values, marks, options):
    return _permute(values[0], (0, *range(values[0].ndim - 1, 0, -1)))


@rule("movedim")
def movedim(op, size, values, marks, options):
    value, source, destination = values
    ndim = value.ndim - 1
    return op(value, [shift(d, ndim, "movedim") for d in source], [shift(d, ndim, "movedim") for d in destination])


@rule("squeeze")
def squeeze(op, size, values, marks, options):
    value, dims = values
    ndim = value.ndim - 1
    if dims is None:
        return op(value, [k for k in range(1, ndim + 1) if value.shape[k] == 1])
    if ndim == 0:
        return OPS["alias"](value)
    return op(value, [shift(d, ndim, "squeeze") for d in dims])


@rule("unsqueeze")
def unsqueeze(op, size, values, marks, options):
    return op(values[0], shift(values[1], values[0].ndim, "unsqueeze"))


def _one_dimension(at):
    def run(op, size, values, marks, options):
        ndim = values[0].ndim - 1
        if ndim == 0:
            return NotImplemented
        values = list(values)
        values[at] = shift(values[at], ndim, op.name)
        return op(*values, **options)
    return run


rule("slice", "select", "narrow", "unbind", "unfold")(_one_dimension(1))
rule("split.size", "split_with_sizes", "chunk")(_one_dimension(2))


@rule("transpose")
def transpose(op, size, values, marks, options):
    value, a, b = values
    ndim = value.ndim - 1
    return op(value, shift(a, ndim, "transpose"), shift(b, ndim, "transpose")) if ndim else OPS["alias"](value)


@rule("diagonal")
def diagonal(op, size, values, marks, options):
    value, offset, a, b = values
    return op(value, offset, shift(a, value.ndim - 1, "diagonal"), shift(b, value.ndim - 1, "diagonal"))


@rule("as_strided")
def as_strided(op, size, values, marks, options):
    value, shape, strides, *offset = values
    start = offset[0] if offset and offset[0] is not None else value.storage_offset()
    return op(value, (size, *shape), (value.stride(0), *strides), start)
