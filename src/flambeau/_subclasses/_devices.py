"""On which device the result of an operator on fake tensors is, and which devices go together."""

from .. import _C

#: operators whose tensors may be on several devices -> how many of their arguments say where the result is
_SEVERAL = {"_to_copy": 1, "copy_": 1, "index": 1, "index_put": 1, "index_put_": 1, "masked_select": 1, "set_": 1}


class FakeTensorDeviceMismatchError(RuntimeError):
    """Tensors of one call are on different devices."""


def common_device(func, tensors, leading):
    """The device of an operator's tensors. A tensor of one number on the CPU goes with any other device.

    leading     the tensors of the first argument, which decides alone where several devices are allowed
    """
    name = getattr(func, "name", "")
    if name in _SEVERAL or name.startswith(("_foreach", "_fused")):
        return (leading or tensors)[0].device
    found, number = tensors[0].device, _is_number(tensors[0])
    for t in tensors[1:]:
        if t.device == found:
            number = number and _is_number(t)
        elif number:
            found, number = t.device, _is_number(t)
        elif not _is_number(t):
            raise FakeTensorDeviceMismatchError(f"{name}: its tensors must be on one device, got {found} and "
                                                f"{t.device}; move one with .to(device)")
    return found


def _is_number(t):
    return t.device.type == "cpu" and not t.dim()


def numbered(device):
    """A device with its number: that of the kind's first device where none is named."""
    if device.index is None and device.type not in ("cpu", "meta", "mps"):
        return _C.device(device.type, 0)
    return device
