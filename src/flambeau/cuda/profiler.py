"""When NVIDIA's profiler looks: from `start` to `stop`, if it was told to (nsys profile -c cudaProfilerApi)."""

import contextlib

from .. import _C
from ._devices import need


def start():
    """The profiler begins to look at this process's work on the current device."""
    need("profiler.start")
    _C._cuda.profiler(True)


def stop():
    """The profiler no longer looks."""
    need("profiler.stop")
    _C._cuda.profiler(False)


@contextlib.contextmanager
def profile():
    """Context in which the profiler looks."""
    start()
    try:
        yield
    finally:
        stop()
