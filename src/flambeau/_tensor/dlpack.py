"""DLPack: memory shared with other array libraries, both ways."""

from enum import IntEnum

from .. import _C
from .._shown import shown


class DLDeviceType(IntEnum):
    """Device types as DLPack numbers them."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17


def dlpack_device(t):
    """(device type, device number) of a tensor's memory."""
    if t.device.type != "cpu":
        raise ValueError(f"Unknown device type {t.device.type} for Dlpack")
    return DLDeviceType.kDLCPU, 0


def dlpack(t, stream=-1, max_version=None, dl_device=None, copy=None):
    """The capsule of `Tensor.__dlpack__`: of DLPack 1.x where the caller knows that version."""
    if stream not in (-1, None):
        raise AssertionError(f"DLPack: memory of the CPU has no streams; leave stream out, got {shown(stream)}")
    if dl_device is not None and next(iter(dl_device)) != DLDeviceType.kDLCPU:
        if copy is False:
            raise ValueError(f"cannot move the tensor to DLPack device {tuple(dl_device)} without copying")
        raise BufferError(f"cannot export to DLPack device {tuple(dl_device)}: this build has the CPU only")
    versioned = max_version is not None and max_version[0] >= 1
    return _C.to_dlpack(t.clone() if copy else t, versioned, bool(copy))


def to_dlpack(tensor):
    """A DLPack capsule (version 0) over the tensor's memory; it can be consumed once.

    >>> import flambeau
    >>> flambeau.from_dlpack(flambeau.to_dlpack(flambeau.tensor([1, 2])))
    tensor([1, 2])
    """
    return _C.to_dlpack(tensor, False, False)


def _capsule_of(ext_tensor, device, copy):
    if not hasattr(ext_tensor, "__dlpack__"):
        return ext_tensor
    kind, _ = ext_tensor.__dlpack_device__()
    options = {"copy": copy} if copy is not None else {}
    if kind not in (DLDeviceType.kDLCPU, DLDeviceType.kDLCUDAHost):
        if device is None:
            raise BufferError(f"from_dlpack: the memory is on DLPack device type {int(kind)}, and this build uses "
                              "the CPU only; device='cpu' asks for a copy")
        options["dl_device"] = (DLDeviceType.kDLCPU, 0)
    try:
        return ext_tensor.__dlpack__(max_version=(1, 1), **options)
    except TypeError:  # written for DLPack 0.x, without these arguments
        if options:
            raise BufferError(f"from_dlpack: {type(ext_tensor).__name__}.__dlpack__ does not know the arguments "
                              f"{', '.join(options)}") from None
        return ext_tensor.__dlpack__()


def from_dlpack(ext_tensor, *, device=None, copy=None):
    """A tensor over the memory of another library's array (anything with `__dlpack__`), or of a DLPack capsule.

    `copy`: True always copies, False never. Memory that the other library calls read-only stays so.

    >>> import flambeau, numpy
    >>> a = numpy.arange(3.0)
    >>> t = flambeau.from_dlpack(a)
    >>> t[0] = 7
    >>> float(a[0])
    7.0
    """
    if device is not None:
        device = _C.device(device)
        if device.type != "cpu":
            raise ValueError(f"from_dlpack: device {device} is not available for exchange; use 'cpu'")
    return _C.from_dlpack(_capsule_of(ext_tensor, device, copy))
