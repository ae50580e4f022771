"""Memory of the accelerator: what is in use, what is kept for reuse."""

from .. import _C, cuda
from ._devices import need


def empty_cache():
    """Gives device memory back that is kept for reuse and in no tensor."""
    need("empty_cache")
    cuda.empty_cache()


def empty_host_cache():
    """Gives pinned host memory back that is kept for reuse and in no tensor."""
    need("empty_host_cache")
    _C._cuda.empty_host_cache()


def get_memory_info(device_index=None, /):
    """(free, total) bytes of a device, whoever uses it."""
    need("get_memory_info")
    return cuda.mem_get_info(device_index)


def _of_cuda(name):
    function = getattr(cuda, name)

    def ask(device_index=None, /):
        need(name)
        return function(device_index)

    ask.__name__ = ask.__qualname__ = name
    ask.__doc__ = function.__doc__
    return ask


memory_allocated, memory_reserved = _of_cuda("memory_allocated"), _of_cuda("memory_reserved")
max_memory_allocated, max_memory_reserved = _of_cuda("max_memory_allocated"), _of_cuda("max_memory_reserved")
memory_stats, reset_peak_memory_stats = _of_cuda("memory_stats"), _of_cuda("reset_peak_memory_stats")
reset_accumulated_memory_stats = _of_cuda("reset_accumulated_memory_stats")
