"""Batches in memory that CUDA devices copy from directly."""

from collections.abc import Mapping, Sequence

from .... import _C


def pinned(batch):
    """The batch with its tensors in pinned memory: in lists, tuples and mappings, and by objects' own `pin_memory`."""
    if isinstance(batch, _C.Tensor):
        return batch.pin_memory() if batch.device.type == "cpu" else batch
    if hasattr(batch, "pin_memory"):
        return batch.pin_memory()
    if isinstance(batch, Mapping):
        return _like(batch, {key: pinned(value) for key, value in batch.items()})
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*map(pinned, batch))
    if isinstance(batch, Sequence) and not isinstance(batch, (str, bytes)):
        return _like(batch, [pinned(value) for value in batch])
    return batch


def _like(batch, found):
    """The same kind of container where it can be made of what it holds."""
    try:
        return type(batch)(found)
    except TypeError:
        return found
