"""What every schedule shares: counting, writing the rates into the groups, state."""

from functools import wraps
from warnings import warn
from weakref import ref

import flambeau

from ..._shown import shown
from ..optimizer import Optimizer

EPOCH_DEPRECATION_WARNING = "the epoch parameter of scheduler.step() is deprecated: call scheduler.step() without it"


def check_optimizer(scheduler, optimizer):
    """Schedules act on an Optimizer and on nothing else."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(scheduler).__name__}: expected an Optimizer, got {type(optimizer).__name__}")


def per_group(optimizer, name, value):
    """One value per parameter group: a list of the right length, or one number for all."""
    groups = len(optimizer.param_groups)
    if isinstance(value, (list, tuple)):
        if len(value) != groups:
            raise ValueError(f"{name}: one value per parameter group is expected, {shown(groups)} in all, got "
                             f"{len(value)}")
        return list(value)
    return [value] * groups


def set_option(group, name, value):
    """Writes an option; one that is a tensor keeps its identity and takes the value."""
    if isinstance(group.get(name), flambeau.Tensor):
        group[name].fill_(value)
    else:
        group[name] = value


def copied(value):
    return value.clone() if isinstance(value, flambeau.Tensor) else value


def _watch_steps(optimizer):
    """Marks on the optimizer that its `step` was called, so that a wrong order of calls can be told."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    method, owner = optimizer.step.__func__, ref(optimizer)

    @wraps(method)
    def step(*args, **kwargs):
        self = owner()
        self._opt_called = True
        return method(self, *args, **kwargs)

    step._wrapped_by_lr_sched = True
    optimizer.step = step


class LRScheduler:
    """Base of the schedules. A subclass gives `get_lr()`: the rates from those before, or the closed form too.

    >>> import flambeau
    >>> opt = flambeau.optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=0.1)
    >>> class Halve(flambeau.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [lr * 0.5 ** self.last_epoch for lr in self.base_lrs]
    >>> schedule = Halve(opt)
    >>> opt.step(); schedule.step(); schedule.get_last_lr()
    [0.05]
    """

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer, last_epoch=-1):
        check_optimizer(self, optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError("scheduler: last_epoch >= 0 continues an earlier schedule, which left 'initial_lr' in "
                               f"each parameter group; group {i} has none")
        self.base_lrs = [copied(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        _watch_steps(optimizer)
        self._initial_step()

    def _initial_step(self):
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self):
        """All there is but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict):
        """Takes over what `state_dict` gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self):
        """The rates of the groups as last set."""
        return self._last_lr

    def get_lr(self):
        """The rates for `last_epoch`."""
        raise NotImplementedError(f"{type(self).__name__}.get_lr is not implemented")

    def _own_warn_outside_step(self):
        if not self._get_lr_called_within_step:
            warn("get_lr() computes the next rates and belongs inside step(); call get_last_lr() for the rates in use",
                 UserWarning, stacklevel=3)

    def _own_warn_order(self):
        if self._step_count != 1:
            return
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warn("`optimizer.step()` was replaced after the scheduler was made; create the scheduler afterwards",
                 UserWarning, stacklevel=3)
        elif not getattr(self.optimizer, "_opt_called", False):
            warn("`lr_scheduler.step()` was called before `optimizer.step()`: the first value of the schedule is "
                 "skipped. Call `optimizer.step()` first.", UserWarning, stacklevel=3)

    def step(self, epoch=None):
        """Moves on by one (or, deprecated, to `epoch`) and writes the rates into the groups."""
        self._own_warn_order()
        self._step_count += 1
        if epoch is not None:
            warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch=None):
        self._get_lr_called_within_step = True
        try:
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                closed = getattr(self, "_get_closed_form_lr", None)
                values = closed() if closed is not None else self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        self._own_write(values)

    def _own_write(self, values):
        for group, value in zip(self.optimizer.param_groups, values):
            set_option(group, "lr", value)
        self._last_lr = [copied(group["lr"]) for group in self.optimizer.param_groups]


class _LRScheduler(LRScheduler):
    """The name older programs use."""
