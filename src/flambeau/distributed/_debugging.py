"""What helps to look at a program of several processes: a debugger in one of them, levels of reports, titles of calls.
"""

import contextlib
import itertools
import os
import sys
from datetime import timedelta

from .._shown import shown
from ._collectives import barrier
from ._groups import get_rank
from ._values import DebugLevel
from ._where import titles

_level = [DebugLevel.OFF]
_calls = itertools.count(1)


def get_debug_level():
    """How much a program wants to hear of its exchanges, which are always checked here: the level that was set."""
    return _level[0]


def set_debug_level(arg0):
    """Sets the level: a member of DebugLevel."""
    if not isinstance(arg0, DebugLevel):
        raise TypeError(f"set_debug_level: expected a member of DebugLevel, got {shown(arg0)}")
    _level[0] = arg0


def set_debug_level_from_env():
    """Sets the level to what $TORCH_DISTRIBUTED_DEBUG says (OFF, INFO, DETAIL), OFF where it says nothing."""
    name = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()
    known = DebugLevel.__members__
    if name not in known:
        raise ValueError(f"set_debug_level_from_env: TORCH_DISTRIBUTED_DEBUG is one of {', '.join(known)}, got "
                         f"{shown(name)}")
    _level[0] = DebugLevel[name]


def breakpoint(rank=0, skip=0, timeout_s=3600):
    """Opens pdb in one rank, while the others wait for it, for at most timeout_s seconds. `up` leads to the caller.

    The first `skip` calls do nothing.
    """
    if next(_calls) <= skip:
        return
    if get_rank() == rank:
        import pdb  # not at the top: few programs want it

        # of the terminal: processes that a launcher starts have no input of their own
        pdb.Pdb(stdin=open("/dev/stdin", encoding="utf-8"), stdout=sys.stdout).set_trace()  # noqa: SIM115
    barrier(timeout=timedelta(seconds=timeout_s))


@contextlib.contextmanager
def record_comm(name):
    """Context whose collectives have this title in what `distributed.timeline` writes, in place of their own names."""
    before, titles.current = titles.current, str(name)
    try:
        yield
    finally:
        titles.current = before
