"""Marks and ranges in the timelines of NVIDIA's tools, through NVTX's library: `pip install nvidia-nvtx-cu12`."""

import contextlib
import ctypes
from functools import cache

from .._libraries import in_packages

_PACKAGES = ("nvidia-nvtx-cu12", "nvidia-nvtx")
_NAMES = ("libnvToolsExt.so.1", "libnvToolsExt.so")


@cache
def _library():
    """NVTX's library: of a package, else of the system. Raises RuntimeError where there is none."""
    for path in (*in_packages(_PACKAGES, r"libnvToolsExt\.so(\.\d+)*"), *_NAMES):
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        library.nvtxRangeStartA.restype = ctypes.c_uint64
        library.nvtxRangeEnd.argtypes = [ctypes.c_uint64]
        return library
    raise RuntimeError("cuda.nvtx: NVTX's library (libnvToolsExt.so.1) was not found; pip install nvidia-nvtx-cu12, or "
                       "use autograd.profiler.record_function")


def range_push(msg):
    """Begins a range inside those that this thread has begun; how many these are."""
    return _library().nvtxRangePushA(str(msg).encode())


def range_pop():
    """Ends the innermost range of this thread; how many are left."""
    return _library().nvtxRangePop()


def range_start(msg):
    """Begins a range that any thread may end, by the number that is returned."""
    return _library().nvtxRangeStartA(str(msg).encode())


def range_end(range_id):
    """Ends a range of range_start."""
    _library().nvtxRangeEnd(range_id)


def mark(msg):
    """A mark at this moment."""
    _library().nvtxMarkA(str(msg).encode())


@contextlib.contextmanager
def range(msg, *args, **kwargs):
    """Context (and decorator) of a range whose name is msg.format(*args, **kwargs)."""
    range_push(str(msg).format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
