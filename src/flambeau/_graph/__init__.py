"""Programs that are captured by running: how a function is called whose operators are written down."""

import contextlib

from .. import _C
from .calls import BACKENDS as BACKENDS
from .calls import EAGER as EAGER
from .calls import NAMED as NAMED
from .calls import STANCE as STANCE
from .calls import Capture as Capture
from .calls import CapturedForward as CapturedForward
from .calls import captured as captured
from .calls import check as check
from .calls import promises as promises
from .calls import recorded as recorded


@contextlib.contextmanager
def capturing():
    """Operators of this thread are written down, and run when somebody looks or at the end."""
    writing = _C.graph_begin()
    try:
        yield
    finally:
        if writing is not None:  # inside another capture: that one goes on
            _C.graph_end(writing)
