"""CUDA devices: this build has none, and `is_available()` says so."""

import contextlib
import importlib

from . import _C
from ._absent import refusals, refused_class
from ._shown import shown
from ._tensor.types import CUDA_TYPES

_MESSAGE = "flambeau was built without CUDA: use device 'cpu' (cuda.is_available() tells)"


def is_available():
    """Whether a CUDA device can be used.

    >>> import flambeau
    >>> flambeau.cuda.is_available()
    False
    """
    return False


def is_initialized():
    """Whether CUDA is in use."""
    return False


def device_count():
    """How many CUDA devices there are."""
    return 0


def is_bf16_supported(including_emulation=True):
    """Whether the device computes in bfloat16."""
    return False


def manual_seed(seed):
    """Seeds the device's generator: there is none, so nothing happens."""
    int(seed)


manual_seed_all = manual_seed


def empty_cache():
    """Gives unused device memory back: there is none."""


def _refuse(*args, **kwargs):
    raise RuntimeError(_MESSAGE)


def _nothing(*args, **kwargs):
    """Nothing: there is no device whose state it could change."""


seed = seed_all = ipc_collect = set_rng_state_all = reset_accumulated_memory_stats = _nothing
reset_max_memory_allocated = reset_max_memory_cached = _nothing


class device(contextlib.nullcontext):
    """Context in which a device is the current one: device(None) and device(-1) stay where they are."""

    def __init__(self, device):
        super().__init__()
        if device is not None and device != -1:
            _refuse()


def device_of(obj):
    """Context in which the device of a tensor is the current one: a tensor of the CPU changes nothing."""
    return contextlib.nullcontext()


def stream(stream):
    """Context in which work goes to a stream: stream(None) changes nothing, and there are no others."""
    return contextlib.nullcontext() if stream is None else _refuse()


def get_arch_list():
    """The kinds of devices that were compiled for: none."""
    return []


get_rng_state_all = get_arch_list


def memory_stats(device=None):
    """What the device's allocator holds: nothing."""
    return {}


def is_current_stream_capturing():
    """Whether work is being recorded: never."""
    return False


def is_tf32_supported():
    """Whether the device multiplies in TF32: there is none."""
    return False


has_half = has_magma = False
_NAMES = """
    caching_allocator_alloc caching_allocator_delete caching_allocator_enable can_device_access_peer
    change_current_allocator caching_allocator_disabled use_mem_pool
    check_error clock_rate cudart current_blas_handle current_solver_handle current_stream default_stream
    device_memory_used export_dot export_graph_data get_allocator_backend get_gencode_flags
    get_per_process_memory_fraction get_rng_state get_stream_from_external get_sync_debug_mode graph_pool_handle
    host_memory_stats host_memory_stats_as_nested_dict initial_seed list_gpu_processes make_graphed_callables
    mem_get_info memory_snapshot memory_stats_as_nested_dict memory_summary memory_usage power_draw
    reset_accumulated_host_memory_stats reset_peak_host_memory_stats set_per_process_memory_fraction set_rng_state
    set_stream set_sync_debug_mode temperature utilization
"""
globals().update(dict.fromkeys(_NAMES.split(), _refuse))
globals().update(refusals("cuda", _MESSAGE, """
    Stream Event CUDAGraph StreamContext ExternalStream GreenContext MemPool CUDAPluggableAllocator
"""))
graph = refused_class("cuda.graph", _MESSAGE)
current_device = set_device = synchronize = get_device_name = get_device_properties = get_device_capability = _refuse
memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = lambda device=None: 0
memory_cached = max_memory_cached = memory_reserved
reset_peak_memory_stats = lambda device=None: None
init = _refuse
default_generators = ()
OutOfMemoryError = _C.OutOfMemoryError
globals().update(CUDA_TYPES)


def __getattr__(name):
    if name == "amp":
        return importlib.import_module("flambeau.amp._cuda")
    raise AttributeError(f"module {__name__!r} has no attribute {shown(name)}")
