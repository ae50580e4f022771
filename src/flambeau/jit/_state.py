"""Whether a trace runs, and what it says."""

import contextlib
import contextvars
import warnings

from .._graph.inside import Inside
from .._shown import shown

#: inside, this thread runs a trace
tracing = Inside("tracing")
#: inside a trace, what calls a scripted function, and notes it; None elsewhere
keeping = contextvars.ContextVar("keeping", default=None)
OVERLOADED = {}  #: {module: names of functions that have several signatures}
_fusion = contextvars.ContextVar("fusion", default=(("STATIC", 2), ("DYNAMIC", 10)))


class TracerWarning(Warning):
    """What a trace may have got wrong: it depends on values, or is not the same each time."""

    @staticmethod
    def ignore_lib_warnings():
        """Leaves out the warnings of modules of this library that are no traces."""
        warnings.filterwarnings("ignore", category=TracerWarning, module=r"(flambeau|torch)\.(?!jit)")


class TracingCheckError(Exception):
    """The program of a trace fails where the module does not."""


def set_fusion_strategy(strategy):
    """Says how often programs would be fused for shapes that stay ("STATIC") or differ ("DYNAMIC"): a list of such
    names with numbers. Programs run operator by operator, so that it is kept and has no effect. Returns what was said
    before.

    >>> import flambeau
    >>> before = flambeau.jit.set_fusion_strategy([("STATIC", 3)])
    >>> flambeau.jit.set_fusion_strategy(before)
    [('STATIC', 3)]
    """
    if not isinstance(strategy, (list, tuple)) or not all(
            isinstance(pair, (list, tuple)) and len(pair) == 2 and type(pair[1]) is int for pair in strategy):
        raise TypeError(f"jit.set_fusion_strategy: expected a list like [('STATIC', 2)], got {shown(strategy)}")
    for name, _ in strategy:
        if name not in ("STATIC", "DYNAMIC"):
            raise ValueError(f"jit.set_fusion_strategy: expected 'STATIC' or 'DYNAMIC', got {shown(name)}")
    before = list(_fusion.get())
    _fusion.set(tuple(map(tuple, strategy)))
    return before


@contextlib.contextmanager
def optimized_execution(should_optimize):
    """Context in which programs are optimized before they run, or are not: they run operator by operator either way.

    >>> import flambeau
    >>> with flambeau.jit.optimized_execution(False):
    ...     pass
    """
    if not isinstance(should_optimize, bool):
        raise TypeError(f"jit.optimized_execution: expected a bool, got {shown(should_optimize)}")
    yield


def is_tracing():
    """Whether jit.trace runs this."""
    return bool(tracing)
