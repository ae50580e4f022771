"""The accelerator of this machine, whatever its kind: CUDA where a device is there, else every query says no."""

from . import _C, cuda
from ._absent import refused_class

_REASON = "this build has no accelerator; ask accelerator.is_available() first"


def _need(name):
    if not cuda.is_available():
        raise NotImplementedError(f"accelerator.{name}: {_REASON}")


def is_available():
    """Whether there is an accelerator.

    >>> import flambeau
    >>> flambeau.accelerator.is_available()
    False
    """
    return cuda.is_available()


def device_count():
    """How many accelerators there are."""
    return cuda.device_count()


def current_accelerator(check_available=False):
    """The kind of accelerator, as a device; None where there is none, whether asked to check or not."""
    return _C.device("cuda") if cuda.is_available() else None


class device_index:
    """A context on a device of that number; with None nothing changes."""

    def __init__(self, device, /):
        if device is not None:
            _need("device_index")
        self._device = cuda.device(device)

    def __enter__(self):
        self._device.__enter__()

    def __exit__(self, *exc):
        self._device.__exit__(*exc)


def current_device_index():
    """The number of the current device."""
    _need("current_device_index")
    return cuda.current_device()


def set_device_index(device, /):
    """Makes a device the current one of this thread."""
    _need("set_device_index")
    cuda.set_device(device)


current_device_idx, set_device_idx = current_device_index, set_device_index


def current_stream(device=None, /):
    """The stream that work of this thread goes to."""
    _need("current_stream")
    return cuda.current_stream(device)


def set_stream(stream, /):
    """Makes a stream the current one of this thread for its device."""
    _need("set_stream")
    cuda.set_stream(stream)


def synchronize(device=None, /):
    """Waits until all work of a device is done."""
    _need("synchronize")
    cuda.synchronize(device)


def get_device_capability(device=None, /):
    """What a device computes with: {"supported_dtypes": the dtypes}."""
    _need("get_device_capability")
    dtypes = {_C.bool, _C.uint8, _C.int8, _C.int16, _C.int32, _C.int64, _C.float16, _C.float32, _C.float64,
              _C.complex64, _C.complex128}
    return {"supported_dtypes": dtypes | ({_C.bfloat16} if cuda.get_device_capability(device)[0] >= 8 else set())}


def empty_cache():
    """Gives device memory back that is kept for reuse and in no tensor."""
    _need("empty_cache")
    cuda.empty_cache()


def empty_host_cache():
    """Gives pinned host memory back that is kept for reuse and in no tensor."""
    _need("empty_host_cache")
    _C._cuda.empty_host_cache()


def get_memory_info(device_index=None, /):
    """(free, total) bytes of a device, whoever uses it."""
    _need("get_memory_info")
    return cuda.mem_get_info(device_index)


def _of_cuda(name):
    function = getattr(cuda, name)

    def ask(device_index=None, /):
        _need(name)
        return function(device_index)

    ask.__name__ = ask.__qualname__ = name
    ask.__doc__ = function.__doc__
    return ask


memory_allocated, memory_reserved = _of_cuda("memory_allocated"), _of_cuda("memory_reserved")
max_memory_allocated, max_memory_reserved = _of_cuda("max_memory_allocated"), _of_cuda("max_memory_reserved")
memory_stats, reset_peak_memory_stats = _of_cuda("memory_stats"), _of_cuda("reset_peak_memory_stats")
reset_accumulated_memory_stats = _of_cuda("reset_accumulated_memory_stats")
Graph = refused_class("accelerator.Graph", "recorded work of a CUDA device is a cuda.CUDAGraph; use that",
                      "keep_graph, pool, capture_error_mode")
