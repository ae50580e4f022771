"""Whether a trace runs, and what it says."""

running = []  # an entry for each trace that runs


class TracerWarning(Warning):
    """What a trace may have got wrong: it depends on values, or is not the same each time."""


class TracingCheckError(Exception):
    """The program of a trace fails where the module does not."""


def is_tracing():
    """Whether jit.trace runs this."""
    return bool(running)
