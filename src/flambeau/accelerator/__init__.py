"""The accelerator of this machine, whatever its kind: CUDA where a device is there, else every query says no."""

from . import graphs as graphs
from . import memory as memory
from ._devices import current_accelerator as current_accelerator
from ._devices import current_device_idx as current_device_idx
from ._devices import current_device_index as current_device_index
from ._devices import current_stream as current_stream
from ._devices import device_count as device_count
from ._devices import device_index as device_index
from ._devices import get_device_capability as get_device_capability
from ._devices import is_available as is_available
from ._devices import set_device_idx as set_device_idx
from ._devices import set_device_index as set_device_index
from ._devices import set_stream as set_stream
from ._devices import synchronize as synchronize
from .graphs import Graph as Graph
from .memory import empty_cache as empty_cache
from .memory import empty_host_cache as empty_host_cache
from .memory import get_memory_info as get_memory_info
from .memory import max_memory_allocated as max_memory_allocated
from .memory import max_memory_reserved as max_memory_reserved
from .memory import memory_allocated as memory_allocated
from .memory import memory_reserved as memory_reserved
from .memory import memory_stats as memory_stats
from .memory import reset_accumulated_memory_stats as reset_accumulated_memory_stats
from .memory import reset_peak_memory_stats as reset_peak_memory_stats
