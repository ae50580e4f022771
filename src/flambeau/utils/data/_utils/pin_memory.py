"""Batches in memory that CUDA devices copy from directly."""

from collections.abc import Mapping, Sequence

from .... import _C


def pin_memory(batch, device=None):
    """The batch with its tensors in pinned memory: in lists, tuples and mappings, and by objects' own `pin_memory`.

    device: the kind of device that copies from there; None: the one in use.
    """
    if isinstance(batch, _C.Tensor):
        if batch.device.type != "cpu":
            return batch
        return batch.pin_memory() if device is None else batch.pin_memory(device)
    if hasattr(batch, "pin_memory"):
        return batch.pin_memory()
    if isinstance(batch, Mapping):
        return _like(batch, {key: pin_memory(value, device) for key, value in batch.items()})
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(pin_memory(value, device) for value in batch))
    if isinstance(batch, Sequence) and not isinstance(batch, (str, bytes)):
        return _like(batch, [pin_memory(value, device) for value in batch])
    return batch


def _like(batch, found):
    """The same kind of container where it can be made of what it holds."""
    try:
        return type(batch)(found)
    except TypeError:
        return found
