"""Nested tensors to padded dense ones, and back."""

from .. import _C
from ..ops.kinds import OPS
from .rules import is_strided
from .sequences import Jagged
from .tensor import as_jagged, is_nested, joined, make, packed, parts_of


def to_padded(x, padding, output_size=None, name="to_padded_tensor"):
    """A dense tensor of the parts, filled up to the longest (or to `output_size`) with `padding`."""
    if not is_nested(x):
        raise NotImplementedError(f"{name}: expected a nested tensor, got a dense one of shape {list(x.shape)}")
    if is_strided(x):
        return _from_windows(x, padding, output_size, name)
    form = x._form
    sizes = [form.batch, *x._held.shape]
    sizes[form.ragged] = form.sequences.most
    if output_size is None:
        return padded_rows(x, padding, sizes[form.ragged])
    asked = list(output_size)
    if len(asked) == len(sizes) and asked[form.ragged] < sizes[form.ragged]:  # the first rows of each part
        parts = [p.narrow(form.ragged - 1, 0, min(p.shape[form.ragged - 1], asked[form.ragged])) for p in parts_of(x)]
        return to_padded(joined(parts, _C.strided), padding, asked, name)
    sizes[form.ragged] = _checked(asked, sizes, name)[form.ragged]
    found = padded_rows(x, padding, sizes[form.ragged])
    return found if asked == sizes else _bordered(found, asked, padding)


def _checked(output_size, sizes, name):
    output_size = list(output_size)
    if len(output_size) != len(sizes):
        raise RuntimeError(f"{name}: output_size has {len(output_size)} sizes for a nested tensor of {len(sizes)} "
                           "dimensions; give all of them, the batch first")
    if any(a < b for a, b in zip(output_size, sizes, strict=True)):
        raise RuntimeError(f"{name}: output_size {output_size} is less than the parts need, {sizes}, and nothing "
                           "is cut off")
    return output_size


def padded_rows(x, padding, width):
    """The parts of a jagged tensor with `width` rows each."""
    form, values = packed(x)
    sequences, dim = form.sequences, form.ragged - 1
    rows = values.movedim(dim, 0) if dim else values
    flat = OPS["full"]((form.batch * width, *rows.shape[1:]), padding, dtype=values.dtype, device=values.device)
    places = sequences.places(width)
    found = flat.index_copy(0, places, rows) if values.requires_grad else flat.index_copy_(0, places, rows)
    found = found.view(form.batch, width, *rows.shape[1:])
    return found.movedim(1, form.ragged) if dim else found


def _from_windows(x, padding, output_size, name):
    form = x._form
    if not form.sizes or not form.dims:
        parts = parts_of(x)
        return OPS["stack"](parts) if parts else OPS["zeros"](0, dtype=x.dtype, device=x.device)
    sizes = [form.batch, *[max(s[d] for s in form.sizes) for d in range(form.dims)]]
    asked = sizes if output_size is None else _checked(output_size, sizes, name)
    view = as_jagged(x) if len(form.ragged_dims()) < 2 else None
    if view is not None:
        found = padded_rows(view, padding, sizes[view._form.ragged])
    else:
        found = OPS["stack"]([_bordered(p, sizes[1:], padding) for p in parts_of(x)])
    return found if asked == sizes else _bordered(found, asked, padding)


def _bordered(x, sizes, padding):
    """A dense tensor filled up at the end of every dimension."""
    border = [n for old, new in zip(reversed(x.shape), reversed(sizes), strict=True) for n in (0, new - old)]
    return OPS["pad"](x, border, value=padding) if any(border) else x


def from_padded(padded, form):
    """The jagged tensor whose padded form this is; what lies outside of its parts is dropped."""
    sequences = form.sequences.packed
    x = padded.movedim(form.ragged, 1) if form.ragged != 1 else padded
    rows = x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])
    found = rows.index_select(0, sequences.places(x.shape[1]))
    return make(Jagged(sequences, form.ragged), found.movedim(0, form.ragged - 1) if form.ragged != 1 else found)


def from_mask(t, mask, check=True):
    """A strided nested tensor of the rows t[i, :n], where mask[i] is true at its first n places and nowhere else."""
    if mask.dtype is not _C.bool or mask.dim() != 2 or t.dim() != 3 or tuple(mask.shape) != tuple(t.shape[:2]):
        raise RuntimeError(f"_nested_tensor_from_mask: expected t of shape [batch, length, features] and a bool mask "
                           f"[batch, length], got {list(t.shape)} and {mask.dtype} {list(mask.shape)}")
    if check and not left_aligned(mask):
        raise RuntimeError("_nested_tensor_from_mask: the mask must be true first and false from then on, in each row")
    lens = mask.sum(1).tolist()
    return joined([row[:n] for row, n in zip(t.unbind(0), lens, strict=True)], _C.strided)


def left_aligned(mask):
    """Whether each row of a mask is true first and false from then on."""
    lens = mask.sum(1, keepdim=True)
    return bool(((OPS["arange"](mask.shape[1], device=mask.device) < lens) == mask).all())
