"""_coalescing_manager: several collectives of a group as one call."""

import contextlib

import flambeau

from .._shown import shown
from . import _groups
from ._work import Work

#: what may be called inside
_TOGETHER = {"all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_reduce", "all_reduce_coalesced",
             "all_to_all", "all_to_all_single", "broadcast", "gather", "gather_into_tensor", "reduce", "reduce_scatter",
             "reduce_scatter_tensor", "scatter"}


class _NotYet(Work):
    """What a call inside returns with async_op=True: it has no end of its own."""

    def wait(self, timeout=None):
        """RuntimeError: it begins with the others."""
        raise RuntimeError("Work.wait: this call is one of a _coalescing_manager, and begins when that ends; wait for "
                           "the manager, made with async_ops=True")


class _Collected:
    """The calls of one _coalescing_manager."""

    def __init__(self):
        self.calls, self.engine = [], None

    def check(self, name):
        """RuntimeError where a call must not wait for the others."""
        if name not in _TOGETHER:
            raise RuntimeError(f"{name}: inside _coalescing_manager only collectives of tensors may be called, which "
                               "begin when it ends; call it afterwards (batch_isend_irecv makes messages one)")

    def put(self, engine, function, result, async_op):
        """Takes a call."""
        if self.engine not in (None, engine):
            raise RuntimeError("_coalescing_manager: its collectives must be on tensors of one type of device")
        self.engine = engine
        self.calls.append((function, result or []))
        return _NotYet(result) if async_op else None

    def together(self, seconds):
        """All calls."""
        with self.engine.grouped():
            rests = [function(seconds) for function, _ in self.calls]

        def rest():
            for each in rests:
                if each is not None:
                    each()

        return rest


class _CoalescingManager:
    """What the context gives: `wait()` waits for the one call, and for what else was appended."""

    def __init__(self):
        self.works = []

    def append(self, work):
        """Waits for this as well."""
        if work is not None:
            self.works.append(work)

    def wait(self):
        """Waits for all."""
        for work in self.works:
            work.wait()


@contextlib.contextmanager
def _coalescing_manager(group=None, device=None, async_ops=False):
    """Context whose collectives of a group are one call, at its end: of NCCL one launch, elsewhere one turn of the
    group's thread. Results are there when the context has ended, with async_ops=True after the manager's `wait()`.

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    >>> xs = [flambeau.ones(2), flambeau.ones(3)]
    >>> with dist._coalescing_manager(async_ops=True) as manager:
    ...     for x in xs:
    ...         dist.all_reduce(x)
    >>> manager.wait()
    >>> dist.destroy_process_group()
    """
    name = "_coalescing_manager"
    group, manager = _groups.member(group, name), _CoalescingManager()
    if group is None:
        yield manager
        return
    if device is not None and flambeau.device(device).type not in group.engines:
        raise ValueError(f"{name}: the group exchanges no tensors on device {shown(str(device))}")
    collected = group.collected = _Collected()
    try:
        yield manager
    finally:
        group.collected = None
    if collected.calls:
        results = [x for _, result in collected.calls for x in result]
        manager.append(group.call(collected.engine, collected.together, results, async_ops))
