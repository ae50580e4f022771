"""Which accelerators there are, which is current, what they can do, and their streams."""

from .. import _C, cuda

_REASON = "this build has no accelerator; ask accelerator.is_available() first"


def need(name):
    """NotImplementedError, with the function's name, where there is none."""
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
            need("device_index")
        self._device = cuda.device(device)

    def __enter__(self):
        self._device.__enter__()

    def __exit__(self, *exc):
        self._device.__exit__(*exc)


def current_device_index():
    """The number of the current device."""
    need("current_device_index")
    return cuda.current_device()


def set_device_index(device, /):
    """Makes a device the current one of this thread."""
    need("set_device_index")
    cuda.set_device(device)


current_device_idx, set_device_idx = current_device_index, set_device_index


def current_stream(device=None, /):
    """The stream that work of this thread goes to."""
    need("current_stream")
    return cuda.current_stream(device)


def set_stream(stream):
    """Makes a stream the current one of this thread for its device."""
    need("set_stream")
    cuda.set_stream(stream)


def synchronize(device=None, /):
    """Waits until all work of a device is done."""
    need("synchronize")
    cuda.synchronize(device)


def get_device_capability(device=None, /):
    """What a device computes with: {"supported_dtypes": the dtypes}."""
    need("get_device_capability")
    dtypes = {_C.bool, _C.uint8, _C.int8, _C.int16, _C.int32, _C.int64, _C.float16, _C.float32, _C.float64,
              _C.complex64, _C.complex128}
    return {"supported_dtypes": dtypes | ({_C.bfloat16} if cuda.get_device_capability(device)[0] >= 8 else set())}
