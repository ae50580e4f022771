"""Apple's GPUs: this build uses none, and `is_available()` says so."""

from ._absent import refusals
from ._absent.devices import device_count as device_count
from ._absent.devices import empty_cache as empty_cache
from ._absent.devices import is_available as is_available
from ._absent.devices import manual_seed as manual_seed
from ._absent.devices import memory_allocated as memory_allocated
from ._absent.devices import seed as seed

globals().update(refusals("mps", "this build has no mps device; use device 'cpu' (mps.is_available() tells)", """
    compile_shader(source) load_metallib(source) get_rng_state(device) set_rng_state(new_state, device)
    synchronize set_per_process_memory_fraction(fraction) recommended_max_memory Event(enable_timing)
"""))
current_allocated_memory = driver_allocated_memory = memory_allocated
