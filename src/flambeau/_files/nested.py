"""Nested tensors in PyTorch's files: their parts, and what a file may say of them."""

import flambeau

from .._nested.construct import _nested_view_from_buffer, nested_tensor_from_jagged
from .extent import PickleError
from .pickle_writer import Global, Reduce

#: attributes that are a nested tensor's contents, in PyTorch's files too
CONTENTS = {"_values", "_offsets", "_lengths", "_ragged_idx", "_metadata_cache", "_size", "_strides"}
_MODULE = "torch.nested._internal.nested_tensor"


def written(t, data, own):
    """What a file says of a nested tensor. data(tensor, requires_grad): what it says of a dense one."""
    if t.layout is flambeau.strided:
        tables = t._nested_tensor_size(), t._nested_tensor_strides(), t._nested_tensor_storage_offsets()
        return Reduce(Global("torch._utils", "_rebuild_nested_tensor"),
                      (data(t.detach().values(), t.requires_grad), *(data(table.clone(), False) for table in tables)))
    parts = {"values": data(t._values, False), "offsets": data(t.offsets(), False),
             "lengths": None if t.lengths() is None else data(t.lengths(), False), "_ragged_idx": t._ragged_idx,
             "_metadata_cache": {name: data(flambeau.empty(n, 0), False) for name, n in
                                 (("min_seqlen", t._maybe_min_seqlen), ("max_seqlen", t._maybe_max_seqlen)) if n}}
    state = {"_" + name.lstrip("_"): value for name, value in parts.items()} | own
    made = Global(_MODULE, "_rebuild_njt"), Global(_MODULE, "NestedTensor")
    return Reduce(Global("torch._tensor", "_rebuild_from_type_v2"),
                  (*made, (parts | {"requires_grad": t.requires_grad},), state))


def jagged(parts):
    """A jagged tensor, whose offsets must lie in its values."""
    found = _checked(parts, dict)
    values, offsets, lengths = (found.get(name) for name in ("values", "offsets", "lengths"))
    ragged, requires_grad = found.get("_ragged_idx", 1), found.get("requires_grad", False)
    for t in (values, offsets, *([] if lengths is None else [lengths])):
        _plain(t)
    if type(ragged) is not int or type(requires_grad) is not bool:
        raise PickleError("a jagged tensor with a ragged dimension or requires_grad of another type")
    try:
        x = nested_tensor_from_jagged(values.detach(), offsets, lengths, ragged)
        x._form.sequences.checked(values.shape[ragged - 1])
        return x.requires_grad_() if requires_grad else x
    except (RuntimeError, IndexError, AssertionError, ValueError, TypeError) as error:
        raise PickleError(f"a jagged tensor: {error}") from None


def windows(buffer, sizes, strides, offsets):
    """A strided nested tensor, whose windows must lie in its buffer."""
    for t in (buffer, sizes, strides, offsets):
        _plain(t)
    tables = sizes, strides, offsets
    if any(t.dtype is not flambeau.int64 for t in tables) or sizes.shape != strides.shape or sizes.dim() != 2 \
            or offsets.shape != sizes.shape[:1] or any(bool((t < 0).any()) for t in tables):
        raise PickleError("a strided nested tensor whose tables of sizes, strides and offsets do not fit together")
    try:
        x = _nested_view_from_buffer(buffer.detach(), sizes, strides, offsets)
    except (RuntimeError, IndexError, OverflowError) as error:
        raise PickleError(f"a strided nested tensor: {error}") from None
    return x.requires_grad_() if buffer.requires_grad else x


def _checked(value, kind):
    if not isinstance(value, kind):
        raise PickleError(f"a nested tensor whose contents are no {kind.__name__}")
    return value


def _plain(t):
    """An expanded part has far more elements than the file has bytes."""
    if _checked(t, flambeau.Tensor).is_nested or t.layout is not flambeau.strided or t.is_meta \
            or t.numel() * t.element_size() > t.untyped_storage().nbytes():
        raise PickleError("a nested tensor whose contents are no plain tensors")
