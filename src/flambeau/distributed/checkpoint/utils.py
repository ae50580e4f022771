"""What the ranks of a save or load do together: a step fails on all of them where it fails on one."""

import pickle
import traceback

from .. import _groups as groups
from .. import _objects as objects
from .api import CheckpointException


def wrapped(error):
    """An exception with its stack, in a form that other ranks can be sent."""
    stack = traceback.StackSummary.from_list([(f.filename, f.lineno, f.name, f.line)
                                              for f in traceback.extract_tb(error.__traceback__)])
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return error, stack


class _Failure:
    def __init__(self, error):
        self.what = wrapped(error)


def _try(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return _Failure(error)


class Team:
    """The ranks of a group, or this process alone. Objects are pickled: a group trusts its ranks."""

    def __init__(self, group, alone, coordinator_rank=0):
        self.group = None if alone else group if group is not None else groups.world("checkpoint")
        self.rank = 0 if alone else groups.get_rank(self.group)
        self.size = 1 if alone else groups.get_world_size(self.group)
        self.coordinator = coordinator_rank
        self.is_coordinator = self.rank == coordinator_rank

    def gather(self, value):
        """The values of all ranks, on the coordinator."""
        if self.group is None:
            return [value]
        found = [None] * self.size if self.is_coordinator else None
        objects.gather_object(value, found, group=self.group, group_dst=self.coordinator)
        return found

    def scatter(self, values):
        """Its own of the coordinator's values, on each rank."""
        if self.group is None:
            return values[0]
        found = [None]
        objects.scatter_object_list(found, values, group=self.group, group_src=self.coordinator)
        return found[0]

    def through_coordinator(self, step, each, together):
        """`each()` on every rank; `together(all results)`, on the coordinator, gives every rank its own result.

        CheckpointException on all ranks where one of these raises.
        """
        found = self.gather(_try(each))
        results = None
        if self.is_coordinator:
            failures = {rank: one.what for rank, one in enumerate(found) if isinstance(one, _Failure)}
            results = None if failures else _try(together, found)
            if isinstance(results, _Failure):
                failures = {self.rank: results.what}
            if failures:
                results = [CheckpointException(step, failures)] * self.size
        mine = self.scatter(results)
        if isinstance(mine, CheckpointException):
            raise mine
        return mine
