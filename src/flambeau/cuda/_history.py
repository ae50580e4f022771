"""What happened to device memory, and where in the program: recorded on request, for memory_snapshot and for files that
PyTorch's viewer of snapshots reads."""

import pickle
import sys

from .. import _C
from .._shown import shown
from ._devices import index_of, need
from ._memory import memory_snapshot

_cuda = _C._cuda


def _record_memory_history(enabled="all", context="all", stacks="python", max_entries=sys.maxsize, device=None,
                           clear_history=False):
    """From now on, what happens to device memory is recorded; `enabled=None` ends it.

    enabled: "state" keeps the stack of each block that is in use, "all" also what happened, in order, the last
    `max_entries` of it. context: whose stacks are kept, None, "state" (blocks in use), "alloc" (requests) or "all"
    (what is given back, too). stacks: "python"; "all" asks for frames of C++ too, which there are none of. device: one
    that must be there; all are recorded. clear_history: what was recorded is forgotten.
    """
    need("_record_memory_history")
    if device is not None:
        index_of(device)
    for name, value, known in (("enabled", enabled, (None, "state", "all")), ("stacks", stacks, ("python", "all")),
                               ("context", context, (None, "state", "alloc", "all"))):
        if value not in known:
            raise ValueError(f"_record_memory_history: {name} must be one of {known}, got {shown(value)}")
    if not isinstance(max_entries, int) or max_entries <= 0:
        raise ValueError(f"_record_memory_history: max_entries must be a positive number, got {shown(max_entries)}")
    _cuda.record_memory(enabled is not None, enabled == "all", context is not None, context == "all", max_entries,
                        bool(clear_history))


def _snapshot(device=None):
    """{"segments": as memory_snapshot, with stacks where they were recorded, "device_traces": for each device what
    happened, in order, …}; device: traces of one device alone."""
    need("_snapshot")
    wanted = range(_cuda.device_count()) if device is None else (index_of(device),)
    return {"segments": memory_snapshot(), "external_annotations": [], "allocator_settings": {
        "PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "expandable_segments": False},
        "device_traces": [_cuda.memory_events(k) if k in wanted else [] for k in range(_cuda.device_count())]}


def _dump_snapshot(filename="dump_snapshot.pickle"):
    """Writes `_snapshot()` as a pickle, which PyTorch's viewer (pytorch.org/memory_viz) reads."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)
