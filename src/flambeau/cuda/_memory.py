"""Memory of CUDA devices: what is in use, what is kept for reuse, and its limits."""

import contextlib
import sys
from collections import OrderedDict

from .. import _C
from .._absent import refusals
from ._devices import index_of, need

_cuda = _C._cuda


def empty_cache():
    """Gives device memory back that is kept for reuse and in no tensor."""
    if _cuda.available():
        ipc_collect()
        _cuda.empty_cache()


def ipc_collect():
    """Lets go of memory that was sent to other processes, where they have let go of it; sending more does so, too."""
    sending = sys.modules.get(f"{__package__}._ipc")  # where nothing was sent it is not loaded
    if sending:
        sending.collect()


def memory_stats(device=None):
    """What a device's allocator has done, {"allocated_bytes.all.peak": …}, by PyTorch's names; {} without a device."""
    return OrderedDict(sorted(_cuda.statistics(index_of(device)).items())) if _cuda.available() else {}


def _nested(flat):
    nested = {}
    for name, value in flat.items():
        place = nested
        *path, last = name.split(".")
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    return nested


def memory_stats_as_nested_dict(device=None):
    """memory_stats as dictionaries in dictionaries: ["allocated_bytes"]["all"]["peak"]."""
    need("memory_stats_as_nested_dict")
    return _nested(memory_stats(device))


def _reading(name, doc):
    def read(device=None):
        return memory_stats(device)[name] if _cuda.available() else 0

    read.__doc__ = doc
    return read


memory_allocated = _reading("allocated_bytes.all.current", "Bytes of a device that tensors use.")
max_memory_allocated = _reading("allocated_bytes.all.peak", "The most bytes of a device that tensors have used.")
memory_reserved = _reading("reserved_bytes.all.current", "Bytes of a device that this process holds, free ones too.")
max_memory_reserved = _reading("reserved_bytes.all.peak", "The most bytes of a device that this process has held.")
for _name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"):
    globals()[_name].__name__ = globals()[_name].__qualname__ = _name


def reset_peak_memory_stats(device=None):
    """Peaks are counted from what is in use now."""
    if _cuda.available():
        _cuda.reset_peaks(index_of(device))


def reset_accumulated_memory_stats(device=None):
    """Totals (allocated, freed, retries …) are counted from zero."""
    if _cuda.available():
        _cuda.reset_accumulated(index_of(device))


memory_cached, max_memory_cached = memory_reserved, max_memory_reserved
reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def mem_get_info(device=None):
    """(free, total) bytes of a device, whoever uses it."""
    need("mem_get_info")
    return _cuda.memory_info(index_of(device))


def device_memory_used(device=None):
    """Bytes of a device in use, by any process."""
    free, total = mem_get_info(device)
    return total - free


def memory_snapshot(mempool_id=None, include_traces=True):
    """The segments of all devices and their blocks, a list of dictionaries; mempool_id: those of one pool.

    include_traces: False leaves the lists of frames out, which are empty unless memory._record_memory_history was asked
    to record them.
    """
    need("memory_snapshot")
    found = [segment for k in range(_cuda.device_count()) for segment in _cuda.snapshot(k)]
    for block in (block for segment in found for block in segment["blocks"]):
        block["frames"] = _cuda.memory_frames(block["address"])
    if not include_traces:
        for entry in found + [block for segment in found for block in segment["blocks"]]:
            del entry["frames"]
    return [s for s in found if mempool_id is None or s["segment_pool_id"] == tuple(mempool_id)]


_ROWS = (("allocated_bytes", "In tensors"), ("active_bytes", "In use"), ("requested_bytes", "Asked for"),
         ("reserved_bytes", "Held"), ("inactive_split_bytes", "Free pieces of segments in use"),
         ("allocation", "Blocks"), ("active", "Blocks in use"), ("segment", "Segments"),
         ("inactive_split", "Free pieces"))


def _size(n, of_bytes):
    if not of_bytes:
        return str(n)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(n) < 10240 or unit == "GiB":
            return f"{n} {unit}"
        n //= 1024


def memory_summary(device=None, abbreviated=False):
    """A table of memory_stats; abbreviated: without the rows of the two kinds of segments."""
    need("memory_summary")
    k = index_of(device)
    stats = memory_stats(k)
    lines = [f"Memory of cuda:{k} ({stats['num_ooms']} times out of memory, {stats['num_alloc_retries']} retries)",
             f"{'':<34}{'now':>14}{'peak':>14}{'total':>14}{'freed':>14}"]
    for name, title in _ROWS:
        for kind in ("all",) if abbreviated else ("all", "large_pool", "small_pool"):
            label = title if kind == "all" else f"  {kind.replace('_pool', ' segments')}"
            numbers = (_size(stats[f"{name}.{kind}.{part}"], name.endswith("bytes"))
                       for part in ("current", "peak", "allocated", "freed"))
            lines.append(f"{label:<34}" + "".join(f"{n:>14}" for n in numbers))
    return "\n".join(lines) + "\n"


def get_per_process_memory_fraction(device=None):
    """The part of a device's memory that this process takes at most."""
    need("get_per_process_memory_fraction")
    return _cuda.memory_fraction(index_of(device))


def set_per_process_memory_fraction(fraction, device=None):
    """Lets this process take at most that part, 0 to 1, of a device's memory."""
    need("set_per_process_memory_fraction")
    if not isinstance(fraction, (int, float)):
        raise TypeError(f"set_per_process_memory_fraction: expected a number, got {type(fraction).__name__}")
    if not 0 <= fraction <= 1:
        raise ValueError(f"set_per_process_memory_fraction: expected a number from 0 to 1, got {fraction}")
    _cuda.set_memory_fraction(index_of(device), float(fraction))


globals().update(refusals("cuda", "not available in flambeau; memory comes from flambeau's own allocator", """
    change_current_allocator(allocator) CUDAPluggableAllocator(path_to_so_file, alloc_fn_name, free_fn_name)
"""))
_raw = {}  # address -> number of the block, of what caching_allocator_alloc gave


def caching_allocator_alloc(size, device=None, stream=None):
    """The address of `size` bytes of device memory, for other libraries; caching_allocator_delete gives them back."""
    need("caching_allocator_alloc")
    k = index_of(device)
    handle = getattr(stream, "cuda_stream", stream)
    address, block = _cuda.raw_allocate(size, k, _cuda.current_stream(k) if handle is None else handle)
    _raw[address] = block
    return address


def caching_allocator_delete(mem_ptr):
    """Gives memory of caching_allocator_alloc back."""
    need("caching_allocator_delete")
    if mem_ptr not in _raw:
        raise ValueError(f"caching_allocator_delete: {mem_ptr:#x} is no address that caching_allocator_alloc gave")
    _cuda.raw_free(_raw.pop(mem_ptr))


def caching_allocator_enable(value=True):
    """Device memory is always kept for reuse: True is taken alone."""
    need("caching_allocator_enable")
    if not value:
        raise NotImplementedError("caching_allocator_enable: memory is always kept for reuse; call empty_cache()")


@contextlib.contextmanager
def caching_allocator_disabled():
    """Not available: device memory is always kept for reuse."""
    need("caching_allocator_disabled")
    caching_allocator_enable(False)
    yield


def get_allocator_backend():
    """The kind of allocator: "native"."""
    need("get_allocator_backend")
    return "native"


def host_memory_stats():
    """What the cache of pinned host memory has done."""
    need("host_memory_stats")
    return OrderedDict(sorted(_cuda.host_statistics().items()))


def host_memory_stats_as_nested_dict():
    """host_memory_stats as dictionaries in dictionaries."""
    need("host_memory_stats_as_nested_dict")
    return _nested(host_memory_stats())


def reset_peak_host_memory_stats():
    """Peaks of pinned host memory are counted from what is in use now."""
    need("reset_peak_host_memory_stats")
    _cuda.reset_host_peaks()


def reset_accumulated_host_memory_stats():
    """Totals of pinned host memory are counted from zero."""
    need("reset_accumulated_host_memory_stats")
    _cuda.reset_host_totals()


class MemPool:
    """A pool of device memory of its own: `with use_mem_pool(pool)` takes memory from it.

    Allocators of other libraries (`allocator`), `use_on_oom` and `no_split` are not available.
    """

    def __init__(self, allocator=None, use_on_oom=False, no_split=False):
        need("MemPool")
        if allocator is not None or use_on_oom or no_split:
            raise NotImplementedError("MemPool: allocator, use_on_oom and no_split are not available; leave them out")
        self.id = (0, _cuda.new_pool())
        self.device = _cuda.current_device()

    def use_count(self):
        """How many hold it: this object, and the graphs and contexts that use it now."""
        return 1 + _cuda.pool_users(self.device, self.id[1])

    def snapshot(self, include_traces=True):
        """The segments of this pool."""
        return memory_snapshot(self.id, include_traces)


@contextlib.contextmanager
def use_mem_pool(pool, device=None):
    """Context in which memory of the current stream comes from a pool."""
    need("use_mem_pool")
    k = index_of(device)
    stream = _cuda.current_stream(k)
    _cuda.begin_pool(k, pool.id[1], stream)
    try:
        yield
    finally:
        _cuda.end_pool(k, pool.id[1], stream)
        _cuda.drop_pool(k, pool.id[1])
