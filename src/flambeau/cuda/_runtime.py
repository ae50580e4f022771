"""What programs ask of CUDA's runtime library by its own names, answered by the driver: `cuda.cudart()`."""

from .. import _C
from ._devices import index_of, need

_cuda = _C._cuda


class _Runtime:
    """The functions of the runtime library that programs call beside this one; a result of 0 is success."""

    @staticmethod
    def cudaGetErrorString(error):
        """What a result means, in the driver's words."""
        return _cuda.error_text(int(error))

    @staticmethod
    def cudaProfilerStart():
        """NVIDIA's profiler begins to look."""
        _cuda.profiler(True)
        return 0

    @staticmethod
    def cudaProfilerStop():
        """It no longer looks."""
        _cuda.profiler(False)
        return 0

    @staticmethod
    def cudaHostRegister(ptr, size, flags):
        """Pins memory of the CPU that another allocator gave; it must stay until cudaHostUnregister."""
        return _cuda.host_register(ptr, size, flags)

    @staticmethod
    def cudaHostUnregister(ptr):
        """Lets go of memory that was pinned so."""
        return _cuda.host_unregister(ptr)

    @staticmethod
    def cudaMemGetInfo(device):
        """(free, total) bytes of a device."""
        return _cuda.memory_info(index_of(device))


def cudart():
    """The functions of CUDA's runtime library that programs call by name: profiling, pinning memory, memory in use."""
    need("cudart")
    return _Runtime
