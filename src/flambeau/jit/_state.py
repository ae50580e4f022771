"""Whether a trace runs, and what it says."""

import contextlib
import contextvars

_depth = contextvars.ContextVar("traces", default=0)  # each thread has its own


class TracerWarning(Warning):
    """What a trace may have got wrong: it depends on values, or is not the same each time."""


class TracingCheckError(Exception):
    """The program of a trace fails where the module does not."""


@contextlib.contextmanager
def tracing():
    """Inside, this thread runs a trace."""
    token = _depth.set(_depth.get() + 1)
    try:
        yield
    finally:
        _depth.reset(token)


def is_tracing():
    """Whether jit.trace runs this."""
    return _depth.get() > 0
