"""Memory of Python objects in worker processes: one copy for all of them, however many there are.

A forked worker shares its parent's memory page by page until it writes. Merely looking at an object writes, since its
references are counted, so workers would end up with a copy each of a dataset's lists and dicts. Here they give such
pages back as soon as the counts are what they were (native/bind/shared_heap.cpp says how). This costs one copy of the
parent's small objects, and some microseconds for each page of them that a worker looks at.
"""

import gc
import os
import resource
import sys
from types import FunctionType, MethodType, ModuleType

from .... import _C
from ...._tensor.shared_memory import memory_file
from ..dataset import Dataset

_LEAST = 32 << 20  # bytes of small objects that make it worth the while
_MANY = 50_000  # objects of the workers' own; with fewer of them, copies of their pages are soon made
_CODE = (type, ModuleType, FunctionType, MethodType)
_FAULTS = 512  # pages that a worker may copy at least before it looks which of them it can give back
_SHARE = 10  # all workers together may have copies of one page in so many
_THREADS = 2  # of a worker: its own, and the one that follows the parent


class Snapshot:
    """The parent's small objects, as the workers that are started next will find them."""

    def __init__(self, ranges):
        self.ranges = ranges
        self.fd = memory_file(sum(size for _, size in ranges))
        _C.heap_write(self.fd, ranges)

    def close(self):
        """The workers that have been started have the file."""
        os.close(self.fd)


def snapshot(method, *looked_at):
    """A Snapshot, or None where it would not pay or there is no memory for it."""
    ranges = _C.heap_arenas()
    if method != "fork" or sum(size for _, size in ranges) < _LEAST or not _many(*looked_at):
        return None
    try:
        return Snapshot(ranges)
    except OSError:
        return None


def _many(*roots):
    """Whether more than a few objects can be reached from what workers look at. Of code, what the methods of datasets
    and the given functions name is followed: a program with many objects may load a dataset that has few.

    >>> from flambeau.utils.data._utils.heap import _many
    >>> _many(range(100_000)), _many({"rows": [str(k) for k in range(100_000)]})
    (False, True)
    """
    seen, waiting = {}, [*roots, *map(_named, roots)]
    while waiting:
        found = waiting.pop()
        kind = type(found)  # not what the object says of itself: proxies may raise
        if id(found) in seen or issubclass(kind, _CODE):
            continue
        seen[id(found)] = found  # so that no other has its place
        objects = gc.get_referents(found)
        if issubclass(kind, Dataset):
            objects.extend(_named(code) for base in kind.__mro__ for code in list(vars(base).values()))
        if len(seen) + len(waiting) + len(objects) + _hidden(found) > _MANY:
            return True
        waiting.extend(objects)
    return False


def _named(code):
    """What a function names outside of itself, or None."""
    if type(code) is MethodType:
        return code.__self__, _named(code.__func__)
    if type(code) is not FunctionType:
        return None
    names = code.__globals__.copy()  # at once: another thread may write
    values = [names[name] for name in names if not (type(name) is str and name.startswith("__"))]
    return values, code.__closure__, code.__defaults__


def _hidden(found):
    """How many objects a NumPy array holds, which tells nobody of them."""
    numpy = sys.modules.get("numpy")
    return found.size if numpy and issubclass(type(found), numpy.ndarray) and found.dtype.hasobject else 0


class SharedHeap:
    """A worker's side. To be made before the worker has a second thread."""

    def __init__(self, found, workers):
        nbytes = 0
        if found is not None:
            nbytes = _C.heap_adopt(found.fd, found.ranges)
            found.close()
        self._shared, self._faults = nbytes > 0, 0
        self._most = max(_FAULTS, nbytes // resource.getpagesize() // (_SHARE * workers))

    def restore(self):
        """Gives back pages now and then: to be called after each batch."""
        if not self._shared:
            return
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        if faults - self._faults < self._most:
            return
        if len(os.listdir("/proc/self/task")) <= _THREADS:  # others might write at this moment
            _C.heap_restore()
        self._faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
