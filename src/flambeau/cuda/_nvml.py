"""What NVIDIA's management library knows of a device: how busy, how warm, how fast it is, and who uses it."""

import ctypes
from functools import cache

from .. import _C
from ._devices import index_of, need

_NAMES = ("libnvidia-ml.so.1",)
_TEMPERATURE_OF_THE_CHIP, _CLOCK_OF_MULTIPROCESSORS = 0, 1


class _Rates(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gpu_instance", ctypes.c_uint),
                ("compute_instance", ctypes.c_uint)]


@cache
def _library():
    """The library, opened and begun. Raises RuntimeError where the driver has not brought it."""
    for name in _NAMES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        _check(library, library.nvmlInit_v2(), "nvmlInit")
        return library
    raise RuntimeError(f"NVIDIA's management library ({_NAMES[0]}) was not found; it comes with the driver, in "
                       "containers with the capability 'utility'")


def _check(library, code, what):
    if code:
        library.nvmlErrorString.restype = ctypes.c_char_p
        raise RuntimeError(f"{what}: NVIDIA's management library says {library.nvmlErrorString(code).decode()}")


def _handle(device, what):
    """The library and its handle of a device, which it is told by the device's unique number."""
    need(what)
    number = _C._cuda.properties(index_of(device))["uuid"].hex()
    parts = (number[:8], number[8:12], number[12:16], number[16:20], number[20:])
    library, handle = _library(), ctypes.c_void_p()
    name = f"GPU-{'-'.join(parts)}".encode()
    _check(library, library.nvmlDeviceGetHandleByUUID(name, ctypes.byref(handle)), f"cuda.{what}")
    return library, handle


def _asked(device, what, function, *arguments, result=ctypes.c_uint):
    library, handle = _handle(device, what)
    value = result()
    _check(library, getattr(library, function)(handle, *arguments, ctypes.byref(value)), f"cuda.{what}")
    return value


def utilization(device=None):
    """The share of the last moments, in percent, in which a kernel ran."""
    return _asked(device, "utilization", "nvmlDeviceGetUtilizationRates", result=_Rates).gpu


def memory_usage(device=None):
    """The share of the last moments, in percent, in which memory was read or written."""
    return _asked(device, "memory_usage", "nvmlDeviceGetUtilizationRates", result=_Rates).memory


def temperature(device=None):
    """How warm the chip is, in degrees Celsius."""
    return _asked(device, "temperature", "nvmlDeviceGetTemperature", _TEMPERATURE_OF_THE_CHIP).value


def power_draw(device=None):
    """How much power it draws, in milliwatts."""
    return _asked(device, "power_draw", "nvmlDeviceGetPowerUsage").value


def clock_rate(device=None):
    """The clock of its multiprocessors, in MHz."""
    return _asked(device, "clock_rate", "nvmlDeviceGetClockInfo", _CLOCK_OF_MULTIPROCESSORS).value


def list_gpu_processes(device=None):
    """A text with the processes that compute on a device, and the memory they use."""
    library, handle = _handle(device, "list_gpu_processes")
    room = (_Process * 256)()
    count = ctypes.c_uint(len(room))
    _check(library, library.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), room),
           "cuda.list_gpu_processes")
    lines = [f"GPU:{index_of(device)}"]
    lines += [f"process {p.pid:>10d} uses {p.used / 2**20:>12.3f} MB GPU memory" for p in room[:count.value]]
    return "\n".join(lines if count.value else [*lines, "no processes are running"])
