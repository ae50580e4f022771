"""Schedules given by one formula in the epoch: each is stated in its closed form and applied in its recursive form,
so that several schedules on one optimizer multiply."""

from bisect import bisect_right
from collections import Counter
from math import cos, pi
from types import FunctionType

from ..._shown import shown
from ._base import LRScheduler


class _ByFunction(LRScheduler):
    """A schedule that calls the user's function, one per group."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        groups = len(optimizer.param_groups)
        if isinstance(lr_lambda, (list, tuple)):
            if len(lr_lambda) != groups:
                raise ValueError(f"{len(lr_lambda)} lr_lambdas were given for {shown(groups)} groups")
            self.lr_lambdas = list(lr_lambda)
        else:
            self.lr_lambdas = [lr_lambda] * groups
        super().__init__(optimizer, last_epoch)

    def state_dict(self):
        """Functions are not saved; the attributes of callable objects are."""
        state = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "lr_lambdas")}
        state["lr_lambdas"] = [None if isinstance(f, FunctionType) else f.__dict__.copy() for f in self.lr_lambdas]
        return state

    def load_state_dict(self, state_dict):
        """Keeps this schedule's functions."""
        for function, saved in zip(self.lr_lambdas, state_dict["lr_lambdas"]):
            if saved is not None:
                function.__dict__.update(saved)
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "lr_lambdas"})


class LambdaLR(_ByFunction):
    """lr = base_lr * f(epoch).

    >>> import flambeau
    >>> opt = flambeau.optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = flambeau.optim.lr_scheduler.LambdaLR(opt, lambda epoch: 0.5 ** epoch)
    >>> opt.step(); schedule.step(); schedule.get_last_lr()
    [0.5]
    """

    def get_lr(self):
        """The rates for `last_epoch`."""
        self._own_warn_outside_step()
        return [base * f(self.last_epoch) for f, base in zip(self.lr_lambdas, self.base_lrs)]


class MultiplicativeLR(_ByFunction):
    """lr <- lr * f(epoch)."""

    def get_lr(self):
        """The rates for `last_epoch`."""
        self._own_warn_outside_step()
        lrs = [group["lr"] for group in self.optimizer.param_groups]
        return lrs if self._is_initial else [lr * f(self.last_epoch) for f, lr in zip(self.lr_lambdas, lrs)]


class _ByFactor(LRScheduler):
    """A schedule whose recursive form is lr <- lr * factor(epoch)."""

    def get_lr(self):
        """The rates for `last_epoch`, from those in the groups."""
        self._own_warn_outside_step()
        factor = self._factor(self.last_epoch)
        return [group["lr"] if factor is None else group["lr"] * factor for group in self.optimizer.param_groups]

    def _get_closed_form_lr(self):
        return [self._closed(base, self.last_epoch) for base in self.base_lrs]


class StepLR(_ByFactor):
    """lr = base_lr * gamma ** (epoch // step_size).

    >>> import flambeau
    >>> opt = flambeau.optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=0.5)
    >>> schedule = flambeau.optim.lr_scheduler.StepLR(opt, step_size=2, gamma=0.5)
    >>> rates = []
    >>> for _ in range(4):
    ...     opt.step()
    ...     schedule.step()
    ...     rates += schedule.get_last_lr()
    >>> rates
    [0.5, 0.25, 0.25, 0.125]
    """

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch):
        return None if epoch == 0 or epoch % self.step_size else self.gamma

    def _closed(self, base, epoch):
        return base * self.gamma ** (epoch // self.step_size)


class MultiStepLR(_ByFactor):
    """lr = base_lr * gamma ** (number of milestones reached)."""

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch):
        return self.gamma ** self.milestones[epoch] if epoch in self.milestones else None

    def _closed(self, base, epoch):
        return base * self.gamma ** bisect_right(sorted(self.milestones.elements()), epoch)


class ConstantLR(_ByFactor):
    """lr = base_lr * factor, and base_lr from epoch total_iters on."""

    def __init__(self, optimizer, factor=1.0 / 3, total_iters=5, last_epoch=-1):
        if not 0 <= factor <= 1:
            raise ValueError(f"ConstantLR: factor must be between 0 and 1, got {shown(factor)}")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch):
        if epoch == 0:
            return self.factor
        return 1.0 / self.factor if epoch == self.total_iters else None

    def _closed(self, base, epoch):
        return base * (self.factor + (epoch >= self.total_iters) * (1 - self.factor))


class LinearLR(_ByFactor):
    """lr = base_lr * f, f going from start_factor to end_factor in total_iters epochs."""

    def __init__(self, optimizer, start_factor=1.0 / 3, end_factor=1.0, total_iters=5, last_epoch=-1):
        if not 0 < start_factor <= 1:
            raise ValueError(f"LinearLR: start_factor must be above 0 and at most 1, got {shown(start_factor)}")
        if not 0 <= end_factor <= 1:
            raise ValueError(f"LinearLR: end_factor must be between 0 and 1, got {shown(end_factor)}")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch):
        if epoch == 0:
            return self.start_factor
        if self._is_initial or epoch > self.total_iters:
            return None
        change = self.end_factor - self.start_factor
        return 1.0 + change / (self.total_iters * self.start_factor + (epoch - 1) * change)

    def _closed(self, base, epoch):
        change = self.end_factor - self.start_factor
        return base * (self.start_factor + change * min(self.total_iters, epoch) / self.total_iters)


class ExponentialLR(_ByFactor):
    """lr = base_lr * gamma ** epoch."""

    def __init__(self, optimizer, gamma, last_epoch=-1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch):
        return None if self._is_initial else self.gamma

    def _closed(self, base, epoch):
        return base * self.gamma ** epoch


class PolynomialLR(_ByFactor):
    """lr = base_lr * (1 - epoch / total_iters) ** power, and 0 from total_iters on."""

    def __init__(self, optimizer, total_iters=5, power=1.0, last_epoch=-1):
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch):
        if self._is_initial or epoch > self.total_iters:
            return None
        return ((1.0 - epoch / self.total_iters) / (1.0 - (epoch - 1) / self.total_iters)) ** self.power

    def _closed(self, base, epoch):
        return base * (1.0 - min(self.total_iters, epoch) / self.total_iters) ** self.power


class CosineAnnealingLR(LRScheduler):
    """lr = eta_min + (base_lr - eta_min) (1 + cos(pi epoch / T_max)) / 2   (Loshchilov and Hutter 2017).

    >>> import flambeau
    >>> opt = flambeau.optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = flambeau.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=4)
    >>> for _ in range(2):
    ...     opt.step()
    ...     schedule.step()
    >>> [round(lr, 6) for lr in schedule.get_last_lr()]
    [0.5]
    """

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """The rates for `last_epoch`, from those in the groups."""
        self._own_warn_outside_step()
        lrs = [group["lr"] for group in self.optimizer.param_groups]
        epoch, low, period = self.last_epoch, self.eta_min, self.T_max
        if self._is_initial:
            return lrs
        if self._step_count == 1 and epoch > 0:
            return [low + (base - low) * (1 + cos(epoch * pi / period)) / 2 for base in self.base_lrs]
        if (epoch - 1 - period) % (2 * period) == 0:  # the ratio below would divide by zero
            return [lr + (base - low) * (1 - cos(pi / period)) / 2 for base, lr in zip(self.base_lrs, lrs)]
        now, before = 1 + cos(pi * epoch / period), 1 + cos(pi * (epoch - 1) / period)
        return [now / before * (lr - low) + low for lr in lrs]

    def _get_closed_form_lr(self):
        share = 1 + cos(pi * self.last_epoch / self.T_max)
        return [self.eta_min + (base - self.eta_min) * share / 2 for base in self.base_lrs]
