"""Programs that are captured by running: what is done with one that has not been seen before."""

import contextlib

from .. import _C
from .calls import BACKENDS as BACKENDS
from .calls import STANCE as STANCE
from .calls import Capture as Capture
from .calls import CapturedForward as CapturedForward
from .calls import captured as captured
from .calls import check as check
from .fusion import steps_of
from .program import Program


def plan(described):
    """The steps of a program, for native code."""
    return steps_of(Program(described))


@contextlib.contextmanager
def capturing():
    """Operators of this thread are written down, and run when somebody looks or at the end."""
    writing = _C.graph_begin()
    try:
        yield
    finally:
        if writing is not None:  # inside another capture: that one goes on
            _C.graph_end(writing)
