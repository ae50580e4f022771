"""Meta's accelerators: this build uses none, and `is_available()` says so."""

from ._absent import refusals
from ._absent.devices import device as device
from ._absent.devices import device_count as device_count
from ._absent.devices import empty_cache as empty_cache
from ._absent.devices import get_rng_state_all as get_rng_state_all
from ._absent.devices import is_available as is_available
from ._absent.devices import is_bf16_supported as is_bf16_supported
from ._absent.devices import is_initialized as is_initialized
from ._absent.devices import manual_seed as manual_seed
from ._absent.devices import manual_seed_all as manual_seed_all
from ._absent.devices import max_memory_allocated as max_memory_allocated
from ._absent.devices import memory_allocated as memory_allocated
from ._absent.devices import memory_stats as memory_stats
from ._absent.devices import reset_peak_memory_stats as reset_peak_memory_stats
from ._absent.devices import seed as seed
from ._absent.devices import seed_all as seed_all
from ._absent.devices import set_rng_state_all as set_rng_state_all
from ._absent.devices import stream as stream

globals().update(refusals("mtia", "this build has no mtia device; use device 'cpu' (mtia.is_available() tells)", """
    init synchronize(device) current_device current_stream(device) default_stream(device)
    get_device_capability(device) get_device_properties(device) record_memory_history(enabled, stacks,
    max_entries) snapshot attach_out_of_memory_observer(observer) set_device(device) set_stream(stream)
    set_rng_state(new_state, device) get_rng_state(device) initial_seed graph_pool_handle Event Stream
    StreamContext(stream) MTIAGraph(keep_graph)
"""))
