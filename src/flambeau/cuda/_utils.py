"""The number of a device, under PyTorch's name."""

from .. import _C
from ._devices import index_of


def _get_device_index(device, optional=False, allow_cpu=False):
    """A device's number; optional: the current one's where none is named. allow_cpu: -1 for the CPU."""
    if isinstance(device, str):
        device = _C.device(device)
    if isinstance(device, int) and not isinstance(device, bool):
        return device
    if isinstance(device, _C.device) and device.type == "cpu" and allow_cpu:
        return -1
    if isinstance(device, _C.device) and device.type == "cuda" and device.index is not None:
        return device.index
    return index_of(device, optional)
