"""Schedules made of schedules: one after the other, or all at once."""

from bisect import bisect_right

from ._base import LRScheduler, check_optimizer, copied, set_option


def _check_parts(owner, schedulers, optimizer):
    """At least one schedule, each with an optimizer, all with the same."""
    if len(schedulers) < 1:
        raise ValueError(f"{owner}: the list of schedulers is empty")
    for i, part in enumerate(schedulers):
        if not hasattr(part, "optimizer"):
            raise TypeError(f"{owner}: entry {i} is a {type(part).__name__}, which has no `optimizer`; schedulers are "
                            "expected")
        if part.optimizer is not optimizer:
            raise ValueError(f"{owner}: scheduler {i} belongs to another optimizer than the first")


class _Composed(LRScheduler):
    """State and its loading for schedules with parts."""

    def state_dict(self):
        """The own state and that of each part."""
        state = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "_schedulers")}
        state["_schedulers"] = [part.state_dict() for part in self._schedulers]
        return state

    def load_state_dict(self, state_dict):
        """Takes over the own state and that of each part."""
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for part, saved in zip(self._schedulers, state_dict["_schedulers"]):
            part.load_state_dict(saved)


class SequentialLR(_Composed):
    """The first schedule until milestones[0], the second until milestones[1], …; each begins at its epoch 0.

    >>> import flambeau
    >>> from flambeau.optim.lr_scheduler import ConstantLR, ExponentialLR, SequentialLR
    >>> opt = flambeau.optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = SequentialLR(opt, [ConstantLR(opt, 0.5, 9), ExponentialLR(opt, 0.5)], milestones=[2])
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += schedule.get_last_lr()
    ...     opt.step()
    ...     schedule.step()
    >>> rates
    [0.5, 0.5, 1.0, 0.5]
    """

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        _check_parts(type(self).__name__, schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(f"SequentialLR: {len(schedulers)} schedulers need {len(schedulers) - 1} milestones, where "
                             f"one hands over to the next; got {len(milestones)}")
        self.optimizer, self._schedulers, self._milestones = optimizer, schedulers, milestones
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:  # the parts have each written their first rate
            set_option(group, "lr", copied(group["initial_lr"]))
        self._undo(self)
        schedulers[0]._initial_step()
        self._last_lr = schedulers[0].get_last_lr()

    def _undo(self, scheduler):
        for part in getattr(scheduler, "_schedulers", ()):
            self._undo(part)
        if not hasattr(scheduler, "_schedulers"):
            scheduler.last_epoch -= 1

    def step(self):
        """Moves on the schedule whose turn it is."""
        self.last_epoch += 1
        k = bisect_right(self._milestones, self.last_epoch)
        part = self._schedulers[k]
        if k > 0 and self._milestones[k - 1] == self.last_epoch:
            part._update_lr(0)
        else:
            part.step()
        self._last_lr = part.get_last_lr()


class ChainedScheduler(_Composed):
    """All schedules at once; their factors multiply."""

    def __init__(self, schedulers, optimizer=None):
        if len(schedulers) < 1:
            raise ValueError("ChainedScheduler: no scheduler is given to chain")
        optimizer = optimizer or getattr(schedulers[0], "optimizer", None)
        check_optimizer(self, optimizer)
        _check_parts(type(self).__name__, schedulers, optimizer)
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = [copied(group["lr"]) for group in optimizer.param_groups]

    def step(self):
        """Moves on every schedule."""
        for part in self._schedulers:
            part.step()
        self._last_lr = [copied(group["lr"]) for group in self.optimizer.param_groups]
