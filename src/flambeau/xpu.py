"""Intel's GPUs: this build uses none, and `is_available()` says so."""

from ._absent import refusals
from ._absent.devices import device as device
from ._absent.devices import device_count as device_count
from ._absent.devices import device_of as device_of
from ._absent.devices import empty_cache as empty_cache
from ._absent.devices import get_arch_list as get_arch_list
from ._absent.devices import get_rng_state_all as get_rng_state_all
from ._absent.devices import is_available as is_available
from ._absent.devices import is_bf16_supported as is_bf16_supported
from ._absent.devices import is_current_stream_capturing as is_current_stream_capturing
from ._absent.devices import is_initialized as is_initialized
from ._absent.devices import is_tf32_supported as is_tf32_supported
from ._absent.devices import manual_seed as manual_seed
from ._absent.devices import manual_seed_all as manual_seed_all
from ._absent.devices import max_memory_allocated as max_memory_allocated
from ._absent.devices import max_memory_reserved as max_memory_reserved
from ._absent.devices import memory_allocated as memory_allocated
from ._absent.devices import memory_reserved as memory_reserved
from ._absent.devices import memory_stats as memory_stats
from ._absent.devices import reset_accumulated_memory_stats as reset_accumulated_memory_stats
from ._absent.devices import reset_peak_memory_stats as reset_peak_memory_stats
from ._absent.devices import seed as seed
from ._absent.devices import seed_all as seed_all
from ._absent.devices import set_rng_state_all as set_rng_state_all
from ._absent.devices import stream as stream

globals().update(refusals("xpu", "this build has no xpu device; use device 'cpu' (xpu.is_available() tells)", """
    can_device_access_peer(device, peer) change_current_allocator(allocator) clock_rate(device) current_device
    current_stream(device) device_memory_used(device) get_device_capability(device) get_device_name(device)
    get_device_properties(device) get_gencode_flags get_per_process_memory_fraction(device)
    get_rng_state(device) get_stream_from_external(data_ptr, device) graph_pool_handle init initial_seed
    make_graphed_callables(callables, sample_args, num_warmup_iters, allow_unused_input, pool)
    mem_get_info(device) memory_snapshot(mempool_id) memory_stats_as_nested_dict(device) memory_usage(device)
    power_draw(device) use_mem_pool(pool, device) set_device(device) set_per_process_memory_fraction(fraction,
    device) set_rng_state(new_state, device) set_stream(stream) synchronize(device) temperature(device)
    utilization(device) Event(enable_timing) Stream(device, priority, **kwargs) StreamContext(stream)
    XPUPluggableAllocator(path_to_lib_file, alloc_fn_name, free_fn_name) XPUGraph(keep_graph) MemPool(allocator,
    use_on_oom)
"""))
default_generators = ()
