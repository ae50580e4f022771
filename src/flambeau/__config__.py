"""How this build was compiled, and which libraries it uses."""

import os

from . import _C
from .version import __version__


def show():
    """A text about the build.

    >>> import flambeau
    >>> flambeau.__config__.show().splitlines()[0]
    'Flambeau built with:'
    """
    return "\n".join([
        "Flambeau built with:", f"  - Flambeau {__version__}", "  - C++ Version: 202002", "  - oneDNN", "  - OpenMP",
        f"  - CPU capability usage: {_C.cpu_capability()}", "  - Devices: CPU", ""])


def parallel_info():
    """A text about the threads."""
    threads = _C.num_threads()
    named = [f"\t{name} : {os.environ.get(name, '[not set]')}" for name in ("OMP_NUM_THREADS",)]
    return "\n".join([f"Threads of large operations: {threads}", f"Processors: {os.cpu_count()}",
                      "Environment variables:", *named, "Parallel backend: OpenMP", ""])
