"""Memory of CUDA devices, under PyTorch's name of the module; and what happened to it."""

from ._history import _dump_snapshot as _dump_snapshot
from ._history import _record_memory_history as _record_memory_history
from ._history import _snapshot as _snapshot
from ._memory import MemPool as MemPool
from ._memory import caching_allocator_alloc as caching_allocator_alloc
from ._memory import caching_allocator_delete as caching_allocator_delete
from ._memory import caching_allocator_enable as caching_allocator_enable
from ._memory import empty_cache as empty_cache
from ._memory import get_allocator_backend as get_allocator_backend
from ._memory import get_per_process_memory_fraction as get_per_process_memory_fraction
from ._memory import host_memory_stats as host_memory_stats
from ._memory import host_memory_stats_as_nested_dict as host_memory_stats_as_nested_dict
from ._memory import max_memory_allocated as max_memory_allocated
from ._memory import max_memory_reserved as max_memory_reserved
from ._memory import mem_get_info as mem_get_info
from ._memory import memory_allocated as memory_allocated
from ._memory import memory_reserved as memory_reserved
from ._memory import memory_snapshot as memory_snapshot
from ._memory import memory_stats as memory_stats
from ._memory import memory_stats_as_nested_dict as memory_stats_as_nested_dict
from ._memory import memory_summary as memory_summary
from ._memory import reset_accumulated_memory_stats as reset_accumulated_memory_stats
from ._memory import reset_peak_memory_stats as reset_peak_memory_stats
from ._memory import set_per_process_memory_fraction as set_per_process_memory_fraction
from ._memory import use_mem_pool as use_mem_pool
