"""DLPack: memory shared with other array libraries, both ways."""

import math
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
    if t.device.type == "cuda":
        return DLDeviceType.kDLCUDA, t.device.index
    if t.device.type != "cpu":
        raise ValueError(f"Unknown device type {t.device.type} for Dlpack")
    return DLDeviceType.kDLCPU, 0


def dlpack(t, stream=-1, max_version=None, dl_device=None, copy=None):
    """The capsule of `Tensor.__dlpack__`: of DLPack 1.x where the caller knows that version."""
    if t.device.type == "cuda":
        _wait_for_producer(t, stream)
    elif stream not in (-1, None):
        kind = AssertionError if isinstance(stream, int) else TypeError
        raise kind(f"DLPack: memory of the CPU has no streams; leave stream out, got {shown(stream)}")
    if dl_device is not None and tuple(dl_device) != tuple(dlpack_device(t)):
        t = _elsewhere(t, tuple(dl_device), copy)
    versioned = max_version is not None and max_version[0] >= 1
    return _C.to_dlpack(t.clone() if copy else t, versioned, bool(copy))


def _wait_for_producer(t, stream):
    """Lets the consumer's stream wait for the current one. -1: no waiting; None and 1: the default stream."""
    if stream == -1:
        return
    if stream == 0 or not (stream is None or isinstance(stream, int)):
        raise BufferError(f"DLPack: a CUDA stream is a number (1: the default stream, -1: no waiting), got "
                          f"{shown(stream)}")
    device, cuda = t.device.index, _C._cuda
    handle = 0 if stream in (None, 1, 2) else stream
    here = cuda.current_stream(device)
    if handle != here:
        event = cuda.new_event(device, False)
        cuda.record(event, here, device)
        cuda.stream_wait(device, handle, event)
        cuda.drop_event(device, event, False)


def _elsewhere(t, wanted, copy):
    """The tensor on another DLPack device: from a GPU to the CPU."""
    if copy is False:
        raise ValueError(f"cannot move the tensor to DLPack device {wanted} without copying")
    if wanted[0] != DLDeviceType.kDLCPU:
        raise BufferError(f"cannot export to DLPack device {wanted}: only the CPU and the tensor's own device can be "
                          "asked for")
    return t.cpu()


#: dtype -> its code in __cuda_array_interface__ and in NumPy's
_CODES = {_C.bool: "|b1", _C.uint8: "|u1", _C.int8: "|i1", _C.int16: "<i2", _C.uint16: "<u2", _C.int32: "<i4",
          _C.uint32: "<u4", _C.int64: "<i8", _C.uint64: "<u8", _C.float16: "<f2", _C.float32: "<f4", _C.float64: "<f8",
          _C.complex64: "<c8", _C.complex128: "<c16"}


def cuda_array_interface(t):
    """What `Tensor.__cuda_array_interface__` gives, version 2."""
    if t.requires_grad:
        raise RuntimeError("__cuda_array_interface__: this tensor requires grad, which an exported one cannot; export "
                           "x.detach()")
    if t.dtype not in _CODES:
        raise TypeError(f"__cuda_array_interface__: {t.dtype} has no code there; export a view of another dtype")
    strides = None if t.is_contiguous() else tuple(s * t.element_size() for s in t.stride())
    return {"typestr": _CODES[t.dtype], "shape": tuple(t.shape), "strides": strides, "version": 2,
            "data": (t.data_ptr() if t.numel() else 0, False)}


def from_cuda_array(array):
    """A tensor over the memory of an array with `__cuda_array_interface__`, which is kept alive."""
    found = array.__cuda_array_interface__
    dtype = next((d for d, code in _CODES.items() if code[1:] == found["typestr"][1:]), None)
    if dtype is None or found.get("mask") is not None or found["typestr"][0] == ">":
        raise TypeError(f"as_tensor: an array of type {shown(found['typestr'])} on a CUDA device has no dtype here")
    address, readonly = found["data"]
    if readonly:
        raise ValueError("as_tensor: the array's memory on the CUDA device is read-only; copy it first")
    shape = tuple(found["shape"])
    device = _C._cuda.device_of_address(address) if address else _C._cuda.current_device()
    strides = found.get("strides")
    if strides is None:
        strides = tuple(math.prod(max(n, 1) for n in shape[k + 1:]) for k in range(len(shape)))
    elif any(s % dtype.itemsize for s in strides):
        raise ValueError(f"as_tensor: strides {strides} are no multiples of {dtype.itemsize} bytes")
    else:
        strides = tuple(s // dtype.itemsize for s in strides)
    if found.get("stream"):
        _C._cuda.stream_synchronize(device, found["stream"] if found["stream"] > 2 else 0)
    return _C._cuda.over_address(address, shape, strides, dtype, device, array)


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
    kind, number = ext_tensor.__dlpack_device__()
    options = {"copy": copy} if copy is not None else {}
    if kind == DLDeviceType.kDLCUDA and _C._cuda.available() and (device is None or device.type == "cuda"):
        options["stream"] = _C._cuda.current_stream(number) or 1
    elif kind not in (DLDeviceType.kDLCPU, DLDeviceType.kDLCUDAHost):
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
        if device.type != "cpu" and not (device.type == "cuda" and _C._cuda.available()):
            raise ValueError(f"from_dlpack: device {device} is not available for exchange; use 'cpu'")
    return _C.from_dlpack(_capsule_of(ext_tensor, device, copy))
