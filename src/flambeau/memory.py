"""What the caching allocator holds, and how to give it back."""

from . import _C


def stats():
    """Bytes in use (`allocated`), the most there ever were (`peak`), kept for reuse (`cached`), and counts of requests.

    Objects without their values (tensors, graph nodes …) are kept for reuse too, up to a bound: `free_objects` counts
    them by kind, and `free_object_bytes` is what they take.

    >>> import flambeau
    >>> before = flambeau.memory.stats()["allocated"]
    >>> x = flambeau.empty(1024)
    >>> flambeau.memory.stats()["allocated"] - before >= 4096
    True
    """
    return _C.memory_stats()


def empty_cache():
    """Gives memory kept for reuse back to the system; tensors keep theirs.

    >>> import flambeau
    >>> flambeau.memory.empty_cache()
    """
    _C.empty_cache()


def reset_peak():
    """Lets `peak` start again from what is in use now."""
    _C.reset_peak_memory()
