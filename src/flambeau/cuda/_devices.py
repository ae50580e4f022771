"""The devices of `flambeau.cuda`: which there are, which is current, what they can do."""

from typing import NamedTuple
from uuid import UUID

from .. import _C
from .._absent import devices as absent
from .._shown import shown

_cuda = _C._cuda
MESSAGE = "flambeau was built without CUDA: use device 'cpu' (cuda.is_available() tells)"


def need(name):
    """NotImplementedError, with the function's name, where there is no CUDA device."""
    if not _cuda.available():
        raise NotImplementedError(f"cuda.{name}: {MESSAGE}")


def index_of(device, optional=True):
    """A device's number: of a device, a string, an int; the current one for None. ValueError for other kinds."""
    if device is None:
        if not optional:
            raise ValueError("expected a CUDA device with an index, such as 'cuda:0', got None")
        return _cuda.current_device()
    if isinstance(device, int) and not isinstance(device, bool):
        if not 0 <= device < _cuda.device_count():
            raise RuntimeError(f"CUDA error: invalid device ordinal: {device}; this machine has "
                               f"{_cuda.device_count()} CUDA device(s), counted from 0")
        return device
    return _cuda.index_of(device)


def is_available():
    """Whether a CUDA device can be used: there is a driver, and it knows a device. The first call looks for it.

    >>> import flambeau
    >>> flambeau.cuda.is_available()
    False
    """
    return _cuda.available()


def device_count():
    """How many CUDA devices this process can use."""
    return _cuda.device_count()


def is_initialized():
    """Whether a device is in use by this process."""
    return _cuda.opened() and not _cuda.in_bad_fork() and any(map(_cuda.initialized, range(_cuda.device_count())))


def init():
    """Begins to use the current device; other functions do so when they need it."""
    need("init")
    _cuda.use_device(_cuda.current_device())


def _lazy_call(callable, **kwargs):
    """Calls a function as soon as there is a device in use, which is now, or never without one."""
    if _cuda.available():
        callable()


def _is_in_bad_fork():
    """Whether this process was forked from one that uses a GPU: then it cannot use one itself."""
    return _cuda.in_bad_fork()


def current_device():
    """The number of the device that work goes to which names none."""
    need("current_device")
    return _cuda.current_device()


def set_device(device):
    """Makes a device the current one of this thread. A negative number changes nothing."""
    need("set_device")
    if not (isinstance(device, int) and device < 0):
        _cuda.set_device(index_of(device, optional=False))


class device:
    """Context in which a device is the current one: device(None) and device(-1) stay where they are."""

    def __init__(self, device):
        stays = device is None or (isinstance(device, int) and device < 0)
        if not stays and not _cuda.available():
            absent.device(device)
        self.idx = -1 if stays else index_of(device)
        self.prev_idx = -1

    def __enter__(self):
        if self.idx >= 0:
            self.prev_idx = _cuda.current_device()
            _cuda.set_device(self.idx)

    def __exit__(self, *_):
        if self.idx >= 0:
            _cuda.set_device(self.prev_idx)


def device_of(obj):
    """Context in which the device of a tensor is the current one: a tensor of the CPU changes nothing."""
    on_cuda = isinstance(obj, _C.Tensor) and obj.device.type == "cuda"
    if not on_cuda and isinstance(obj, _C.Tensor) and obj.device.type != "cpu":
        return absent.device_of(obj)
    return device(obj.device if on_cuda else None)


class DeviceProperties(NamedTuple):
    """What the driver says of a device."""
    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int
    max_threads_per_multi_processor: int
    max_threads_per_block: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    regs_per_multiprocessor: int
    L2_cache_size: int
    is_integrated: int
    is_multi_gpu_board: int
    clock_rate: int
    memory_clock_rate: int
    memory_bus_width: int
    pci_bus_id: int
    pci_device_id: int
    pci_domain_id: int
    uuid: UUID


def get_device_properties(device=None):
    """Name, memory, compute capability and more of a device."""
    need("get_device_properties")
    found = _cuda.properties(index_of(device))
    return DeviceProperties(**{**found, "uuid": UUID(bytes=found["uuid"])})


def get_device_name(device=None):
    """The name of a device."""
    need("get_device_name")
    return _cuda.properties(index_of(device))["name"]


def get_device_capability(device=None):
    """(major, minor) of the device's compute capability: (9, 0) for an H100."""
    need("get_device_capability")
    found = _cuda.properties(index_of(device))
    return found["major"], found["minor"]


def get_arch_list():
    """The architectures kernels are made for: that of each device there is."""
    if not _cuda.available():
        return []
    found = (get_device_capability(k) for k in range(device_count()))
    return sorted({f"sm_{major}{minor}" for major, minor in found})


def get_gencode_flags():
    """The flags with which a compiler makes code for the devices there are."""
    need("get_gencode_flags")
    return " ".join(f"-gencode compute=compute_{arch[3:]},code={arch}" for arch in get_arch_list())


def is_bf16_supported(including_emulation=True):
    """Whether the current device computes in bfloat16: from compute capability 8.0 on, slowly on older ones."""
    return _cuda.available() and (including_emulation or get_device_capability()[0] >= 8)


def is_tf32_supported():
    """Whether the current device multiplies in TF32."""
    return _cuda.available() and get_device_capability()[0] >= 8


def can_device_access_peer(device, peer_device):
    """Whether the memory of another device can be read by a device directly."""
    need("can_device_access_peer")
    a, b = index_of(device), index_of(peer_device)
    if a == b:
        raise ValueError(f"can_device_access_peer: expected two devices, got cuda:{a} twice")
    return _cuda.can_access(a, b)


def synchronize(device=None):
    """Waits until all work of a device is done."""
    need("synchronize")
    _cuda.synchronize(index_of(device))


_WAITS = ("default", "warn", "error")


def get_sync_debug_mode():
    """What happens where an operation waits for a device: 0 nothing, 1 a warning, 2 an error."""
    need("get_sync_debug_mode")
    return _cuda.wait_mode()


def set_sync_debug_mode(debug_mode):
    """What happens where an operation lets the CPU wait for a device (`item()`, a copy that is not `non_blocking`, a
    size that depends on values): "default" or 0 nothing, "warn" or 1 a warning, "error" or 2 an error. `synchronize`
    and its kin wait as they are told to."""
    need("set_sync_debug_mode")
    mode = _WAITS.index(debug_mode) if debug_mode in _WAITS else debug_mode
    if isinstance(mode, bool) or mode not in (0, 1, 2):
        raise RuntimeError(f"set_sync_debug_mode: expected one of {', '.join(_WAITS)} or 0, 1, 2, got "
                           f"{shown(debug_mode)}")
    _cuda.set_wait_mode(mode)


class CudaError(RuntimeError):
    """A result of the driver that is not 0."""

    def __init__(self, code):
        super().__init__(f"CUDA error {shown(code)}")


class DeferredCudaCallError(Exception):
    """For programs that expect it: nothing is put off here until a device is in use, so nothing fails later."""


class cudaStatus:
    """The results of the driver that programs ask for by name."""

    SUCCESS = 0
    ERROR_NOT_READY = 34


def check_error(res):
    """CudaError where `res`, a result of the driver, is not 0."""
    need("check_error")
    if res != 0:
        raise CudaError(res)
