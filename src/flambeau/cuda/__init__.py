"""CUDA devices: tensors on them, streams, memory, random numbers, recorded work. `is_available()` tells of a driver.

Nothing of CUDA is loaded before it is asked for. Without a driver, queries say that there is nothing, and functions
that need a device raise NotImplementedError.
"""

import importlib

from .. import _C
from .._absent import refusals
from .._absent.streams import AcceleratorError as AcceleratorError
from .._shown import shown
from .._tensor.storage import CUDA_TYPES as CUDA_STORAGES
from .._tensor.types import CUDA_TYPES
from . import _memory_viz as _memory_viz
from . import _sanitizer as _sanitizer
from . import comm as comm
from . import gds as gds
from . import graphs as graphs
from . import green_contexts as green_contexts
from . import jiterator as jiterator
from . import memory as memory
from . import nvtx as nvtx
from . import profiler as profiler
from . import random as random
from . import sparse as sparse
from . import streams as streams
from . import tunable as tunable
from ._devices import CudaError as CudaError
from ._devices import DeferredCudaCallError as DeferredCudaCallError
from ._devices import _is_in_bad_fork as _is_in_bad_fork
from ._devices import _lazy_call as _lazy_call
from ._devices import can_device_access_peer as can_device_access_peer
from ._devices import check_error as check_error
from ._devices import cudaStatus as cudaStatus
from ._devices import current_device as current_device
from ._devices import device as device
from ._devices import device_count as device_count
from ._devices import device_of as device_of
from ._devices import get_arch_list as get_arch_list
from ._devices import get_device_capability as get_device_capability
from ._devices import get_device_name as get_device_name
from ._devices import get_device_properties as get_device_properties
from ._devices import get_gencode_flags as get_gencode_flags
from ._devices import get_sync_debug_mode as get_sync_debug_mode
from ._devices import init as _lazy_init
from ._devices import init as init
from ._devices import is_available as is_available
from ._devices import is_bf16_supported as is_bf16_supported
from ._devices import is_initialized as is_initialized
from ._devices import is_tf32_supported as is_tf32_supported
from ._devices import set_device as set_device
from ._devices import set_sync_debug_mode as set_sync_debug_mode
from ._devices import synchronize as synchronize
from ._graphed import make_graphed_callables as make_graphed_callables
from ._graphs import CUDAGraph as CUDAGraph
from ._graphs import graph as graph
from ._graphs import graph_pool_handle as graph_pool_handle
from ._graphs import is_current_stream_capturing as is_current_stream_capturing
from ._history import _dump_snapshot as _dump_snapshot
from ._history import _record_memory_history as _record_memory_history
from ._history import _snapshot as _snapshot
from ._kernel import _compile_kernel as _compile_kernel
from ._kernel import _sleep as _sleep
from ._memory import CUDAPluggableAllocator as CUDAPluggableAllocator
from ._memory import MemPool as MemPool
from ._memory import caching_allocator_alloc as caching_allocator_alloc
from ._memory import caching_allocator_delete as caching_allocator_delete
from ._memory import caching_allocator_disabled as caching_allocator_disabled
from ._memory import caching_allocator_enable as caching_allocator_enable
from ._memory import change_current_allocator as change_current_allocator
from ._memory import device_memory_used as device_memory_used
from ._memory import empty_cache as empty_cache
from ._memory import get_allocator_backend as get_allocator_backend
from ._memory import get_per_process_memory_fraction as get_per_process_memory_fraction
from ._memory import host_memory_stats as host_memory_stats
from ._memory import host_memory_stats_as_nested_dict as host_memory_stats_as_nested_dict
from ._memory import ipc_collect as ipc_collect
from ._memory import max_memory_allocated as max_memory_allocated
from ._memory import max_memory_cached as max_memory_cached
from ._memory import max_memory_reserved as max_memory_reserved
from ._memory import mem_get_info as mem_get_info
from ._memory import memory_allocated as memory_allocated
from ._memory import memory_cached as memory_cached
from ._memory import memory_reserved as memory_reserved
from ._memory import memory_snapshot as memory_snapshot
from ._memory import memory_stats as memory_stats
from ._memory import memory_stats_as_nested_dict as memory_stats_as_nested_dict
from ._memory import memory_summary as memory_summary
from ._memory import reset_accumulated_host_memory_stats as reset_accumulated_host_memory_stats
from ._memory import reset_accumulated_memory_stats as reset_accumulated_memory_stats
from ._memory import reset_max_memory_allocated as reset_max_memory_allocated
from ._memory import reset_max_memory_cached as reset_max_memory_cached
from ._memory import reset_peak_host_memory_stats as reset_peak_host_memory_stats
from ._memory import reset_peak_memory_stats as reset_peak_memory_stats
from ._memory import set_per_process_memory_fraction as set_per_process_memory_fraction
from ._memory import use_mem_pool as use_mem_pool
from ._nvml import clock_rate as clock_rate
from ._nvml import list_gpu_processes as list_gpu_processes
from ._nvml import memory_usage as memory_usage
from ._nvml import power_draw as power_draw
from ._nvml import temperature as temperature
from ._nvml import utilization as utilization
from ._runtime import cudart as cudart
from ._utils import _get_device_index as _get_device_index
from .green_contexts import GreenContext as GreenContext
from .random import generators as _generators
from .random import get_rng_state as get_rng_state
from .random import get_rng_state_all as get_rng_state_all
from .random import initial_seed as initial_seed
from .random import manual_seed as manual_seed
from .random import manual_seed_all as manual_seed_all
from .random import seed as seed
from .random import seed_all as seed_all
from .random import set_rng_state as set_rng_state
from .random import set_rng_state_all as set_rng_state_all
from .streams import Event as Event
from .streams import ExternalStream as ExternalStream
from .streams import Stream as Stream
from .streams import StreamContext as StreamContext
from .streams import current_stream as current_stream
from .streams import default_stream as default_stream
from .streams import get_stream_from_external as get_stream_from_external
from .streams import set_stream as set_stream
from .streams import stream as stream

_NO = "not available in flambeau; "
has_half, has_magma = True, False
globals().update(refusals("cuda", _NO + "each launch plan keeps handles of its own and hands none out", """
    current_blas_handle() current_solver_handle()
"""))
globals().update(refusals("cuda", _NO + "CUDAGraph.debug_dump writes what was recorded", """
    export_dot(path, verbose) export_graph_data(path)
"""))
OutOfMemoryError = _C.OutOfMemoryError
globals().update(CUDA_TYPES)
globals().update(CUDA_STORAGES)


def __dir__():
    return [*globals(), "amp", "default_generators", "nccl"]


def __getattr__(name):
    if name == "amp":
        return importlib.import_module("flambeau.cuda.amp")
    if name == "nccl":
        return importlib.import_module("flambeau.cuda.nccl")
    if name == "default_generators":
        return _generators()
    raise AttributeError(f"module {__name__!r} has no attribute {shown(name)}")
