"""CUDA devices: this build has none, and `is_available()` says so."""

import importlib

from .. import _C
from .._absent import refusals, refused_class
from .._absent.devices import device as device
from .._absent.devices import device_count as device_count
from .._absent.devices import device_of as device_of
from .._absent.devices import empty_cache as empty_cache
from .._absent.devices import get_arch_list as get_arch_list
from .._absent.devices import get_rng_state_all as get_rng_state_all
from .._absent.devices import ipc_collect as ipc_collect
from .._absent.devices import is_available as is_available
from .._absent.devices import is_bf16_supported as is_bf16_supported
from .._absent.devices import is_current_stream_capturing as is_current_stream_capturing
from .._absent.devices import is_initialized as is_initialized
from .._absent.devices import is_tf32_supported as is_tf32_supported
from .._absent.devices import manual_seed as manual_seed
from .._absent.devices import manual_seed_all as manual_seed_all
from .._absent.devices import max_memory_allocated as max_memory_allocated
from .._absent.devices import max_memory_reserved as max_memory_reserved
from .._absent.devices import memory_allocated as memory_allocated
from .._absent.devices import memory_reserved as memory_reserved
from .._absent.devices import memory_stats as memory_stats
from .._absent.devices import reset_accumulated_memory_stats as reset_accumulated_memory_stats
from .._absent.devices import reset_peak_memory_stats as reset_peak_memory_stats
from .._absent.devices import seed as seed
from .._absent.devices import seed_all as seed_all
from .._absent.devices import set_rng_state_all as set_rng_state_all
from .._absent.devices import stream as stream
from .._shown import shown
from .._tensor.types import CUDA_TYPES
from . import nvtx as nvtx
from . import profiler as profiler

_MESSAGE = "flambeau was built without CUDA: use device 'cpu' (cuda.is_available() tells)"
has_half = has_magma = False
globals().update(refusals("cuda", _MESSAGE, """
    current_device set_device(device) synchronize(device) get_device_name(device) get_device_properties(device)
    get_device_capability(device) init caching_allocator_alloc(size, device, stream)
    caching_allocator_delete(mem_ptr) caching_allocator_enable(value) can_device_access_peer(device,
    peer_device) change_current_allocator(allocator) caching_allocator_disabled use_mem_pool(pool, device)
    check_error(res) clock_rate(device) cudart current_blas_handle current_solver_handle current_stream(device)
    default_stream(device) device_memory_used(device) export_dot(path, verbose) export_graph_data(path)
    get_allocator_backend get_gencode_flags get_per_process_memory_fraction(device) get_rng_state(device)
    get_stream_from_external(data_ptr, device) get_sync_debug_mode graph_pool_handle host_memory_stats
    host_memory_stats_as_nested_dict initial_seed list_gpu_processes(device) make_graphed_callables(callables,
    sample_args, num_warmup_iters, allow_unused_input, pool) mem_get_info(device) memory_snapshot(mempool_id,
    include_traces) memory_stats_as_nested_dict(device) memory_summary(device, abbreviated) memory_usage(device)
    power_draw(device) reset_accumulated_host_memory_stats reset_peak_host_memory_stats
    set_per_process_memory_fraction(fraction, device) set_rng_state(new_state, device) set_stream(stream)
    set_sync_debug_mode(debug_mode) temperature(device) utilization(device) Stream(device, priority, **kwargs)
    Event(enable_timing, blocking, interprocess, external) CUDAGraph(keep_graph) StreamContext(stream)
    ExternalStream(stream_ptr, device, **kwargs) GreenContext(num_sms, sm_partition,
    workqueue_scope, workqueue_concurrency_limit, device_id) MemPool(allocator, use_on_oom, no_split)
    CUDAPluggableAllocator(path_to_so_file, alloc_fn_name, free_fn_name)
"""))
graph = refused_class("cuda.graph", _MESSAGE,
                      "cuda_graph, pool, stream, capture_error_mode, enable_annotations, check_input_liveness")
memory_cached = max_memory_cached = memory_allocated
reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats
default_generators = ()
OutOfMemoryError = _C.OutOfMemoryError
globals().update(CUDA_TYPES)


def _is_in_bad_fork():
    """Whether this process was forked from one that uses a GPU: never."""
    return False


def __getattr__(name):
    if name == "amp":
        return importlib.import_module("flambeau.amp._cuda")
    raise AttributeError(f"module {__name__!r} has no attribute {shown(name)}")
