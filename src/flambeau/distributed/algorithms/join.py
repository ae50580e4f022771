"""Join: ranks that have no more batches take part in the collectives of the others until all are done."""

from abc import ABC, abstractmethod

import flambeau

from .. import _collectives as collectives
from .._groups import get_rank


class JoinHook:
    """What a rank without batches does: `main_hook` in place of each step of the others, `post_hook` at the end."""

    def main_hook(self):
        """The collectives of one step, with nothing to add."""

    def post_hook(self, is_last_joiner):
        """After all ranks are done; `is_last_joiner`: this one was among the last."""


class Joinable(ABC):
    """What can be in a Join: it has `join_hook`, `join_device` and `join_process_group`."""

    @abstractmethod
    def join_hook(self, **kwargs):
        """Its JoinHook."""

    @property
    @abstractmethod
    def join_device(self):
        """Where its collectives are made."""

    @property
    @abstractmethod
    def join_process_group(self):
        """The group of its collectives."""

    @classmethod
    def __subclasshook__(cls, other):
        if cls is not Joinable:
            return NotImplemented
        names = ("join_hook", "join_device", "join_process_group")
        return all(any(name in vars(base) for base in other.__mro__) for name in names)


class Join:
    """Context in which each rank may have its own number of batches.

    Each of the `joinables` (DistributedDataParallel, ZeroRedundancyOptimizer) is told to tell its collectives; a rank
    that leaves the block makes the same ones until all have left it. throw_on_early_termination: instead, all ranks
    raise RuntimeError when the first is done.
    """

    def __init__(self, joinables, enable=True, throw_on_early_termination=False, **kwargs):
        if not joinables or not all(isinstance(each, Joinable) for each in joinables):
            raise ValueError("Join: expected a list of Joinables (DistributedDataParallel, ZeroRedundancyOptimizer)")
        self._joinables, self._enable, self._throw = joinables, enable, throw_on_early_termination
        self._group = joinables[0].join_process_group
        if any(each.join_process_group is not self._group for each in joinables):
            raise ValueError("Join: all Joinables must be in one group")
        self._hooks = [each.join_hook(**kwargs) for each in joinables]

    def __enter__(self):
        for k, each in enumerate(self._joinables):
            each._join = self if self._enable and k == 0 else None  # the first one tells of each step
        return self

    def __exit__(self, kind, error, trace):
        for each in self._joinables:
            each._join = None
        if not self._enable or kind is not None:
            return
        last = True
        while self._others_go_on():
            last = False
            if self._throw:
                collectives.all_reduce(flambeau.ones(1), group=self._group)
                raise RuntimeError(f"Join: rank {get_rank(self._group)} has no more batches and "
                                   "throw_on_early_termination is set")
            for hook in self._hooks:
                hook.main_hook()
        for hook in self._hooks:
            hook.post_hook(last)

    def _others_go_on(self):
        count = flambeau.zeros(1)
        collectives.all_reduce(count, group=self._group)
        return count.item() > 0

    @staticmethod
    def notify_join_context(joinable):
        """Called by a Joinable at the beginning of a step: tells ranks that are done that this one is not.

        Returns the number of ranks that go on; None outside of a Join.
        """
        join = getattr(joinable, "_join", None)
        if join is None:
            return None
        count = flambeau.ones(1)
        collectives.all_reduce(count, group=join._group)
        if join._throw:
            done = flambeau.zeros(1)
            if count.item() < join._group.size():
                collectives.all_reduce(done, group=join._group)
                raise RuntimeError("Join: another rank has no more batches and throw_on_early_termination is set")
        return int(count.item())
