"""Schedules that go up and down: cyclic, warm restarts, one cycle. The first and the last move momentum too."""

from math import cos, floor, log, pi
from types import FunctionType

from ..._shown import shown
from ._base import LRScheduler, check_optimizer, per_group, set_option


def _check_counts(name, **counts):
    """Every count is a positive int."""
    for key, value in counts.items():
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"{name}: {key} must be a positive int, got {shown(value)}")


def _momentum_kind(optimizer):
    """Whether momentum is the first beta; refused where there is none."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(f"cycle_momentum=True needs an optimizer with `momentum` or `betas`, and "
                         f"{type(optimizer).__name__} has neither; pass cycle_momentum=False")
    return "betas" in optimizer.defaults


def _set_momentum(group, value, use_beta1):
    if use_beta1:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


_SCALE = {
    "triangular": lambda x, gamma: 1.0,
    "triangular2": lambda x, gamma: 1 / (2.0 ** (x - 1)),
    "exp_range": lambda x, gamma: gamma**x,
}


class CyclicLR(LRScheduler):
    """lr goes linearly from base_lr to max_lr and back, over and over   (Smith 2017).

    >>> import flambeau
    >>> opt = flambeau.optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> schedule = flambeau.optim.lr_scheduler.CyclicLR(opt, base_lr=0.0, max_lr=1.0, step_size_up=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     opt.step()
    ...     schedule.step()
    ...     rates += schedule.get_last_lr()
    >>> rates
    [0.5, 1.0, 0.5, 0.0]
    """

    def __init__(self, optimizer, base_lr, max_lr, step_size_up=2000, step_size_down=None, mode="triangular", gamma=1.0,
                 scale_fn=None, scale_mode="cycle", cycle_momentum=True, base_momentum=0.8, max_momentum=0.9,
                 last_epoch=-1):
        check_optimizer(self, optimizer)
        self.optimizer = optimizer
        base_lrs = per_group(optimizer, "base_lr", base_lr)
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups):
                set_option(group, "lr", lr)
        self.max_lrs = per_group(optimizer, "max_lr", max_lr)
        up = float(step_size_up)
        down = float(step_size_down) if step_size_down is not None else up
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        if scale_fn is None and mode not in _SCALE:
            raise ValueError(f"CyclicLR: mode must be one of {sorted(_SCALE)}, got {shown(mode)}; or pass scale_fn")
        self.mode = mode
        self.gamma = gamma
        self.scale_mode = scale_mode if scale_fn is not None else "iterations" if mode == "exp_range" else "cycle"
        self._scale_fn_custom = scale_fn
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _momentum_kind(optimizer)
            self._begin_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _begin_momentum(self, base, high, last_epoch):
        groups = self.optimizer.param_groups
        self.base_momentums = per_group(self.optimizer, "base_momentum", base)
        self.max_momentums = per_group(self.optimizer, "max_momentum", high)
        if last_epoch == -1:
            for low, top, group in zip(self.base_momentums, self.max_momentums, groups):
                _set_momentum(group, top, self.use_beta1)
                group["max_momentum"] = top
                group["base_momentum"] = low

    def scale_fn(self, x):
        """How high the cycle `x` (or, by `scale_mode`, the iteration) reaches, as a share."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        return _SCALE[self.mode](x, self.gamma)

    def get_lr(self):
        """The rates for `last_epoch`; writes the momenta into the groups."""
        self._own_warn_outside_step()
        cycle = floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        lrs = [low + (top - low) * height * scale for low, top in zip(self.base_lrs, self.max_lrs)]
        if self.cycle_momentum:
            for low, top, group in zip(self.base_momentums, self.max_momentums, self.optimizer.param_groups):
                _set_momentum(group, top - (top - low) * height * scale, self.use_beta1)
        return lrs

    def state_dict(self):
        """A plain function given as `scale_fn` is not saved; the attributes of a callable object are."""
        state = super().state_dict()
        fn = state.pop("_scale_fn_custom")
        state["_scale_fn_custom"] = None if fn is None or isinstance(fn, FunctionType) else fn.__dict__.copy()
        return state

    def load_state_dict(self, state_dict):
        """Keeps this schedule's function."""
        state = dict(state_dict)
        saved = state.pop("_scale_fn_custom", None)
        if saved is not None:
            self._scale_fn_custom.__dict__.update(saved)
        super().load_state_dict(state)


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosine annealing that starts anew after T_0, then T_0 T_mult, … epochs   (Loshchilov and Hutter 2017).

    >>> import flambeau
    >>> opt = flambeau.optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = flambeau.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, T_0=2)
    >>> rates = []
    >>> for _ in range(3):
    ...     opt.step()
    ...     schedule.step()
    ...     rates += [round(lr, 6) for lr in schedule.get_last_lr()]
    >>> rates
    [0.5, 1.0, 0.5]
    """

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        _check_counts("CosineAnnealingWarmRestarts", T_0=T_0, T_mult=T_mult)
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"CosineAnnealingWarmRestarts: eta_min must be a float or an int, got {shown(eta_min)}")
        self.eta_min = eta_min
        self.T_0, self.T_mult = T_0, T_mult
        self.T_i, self.T_cur = T_0, last_epoch  # the length of the present round, and the epochs since it began
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """The rates for `T_cur` epochs after the last restart."""
        self._own_warn_outside_step()
        share = (1 + cos(pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]

    def step(self, epoch=None):
        """Moves on by one epoch, or to `epoch`, which may be a fraction: epoch + batch / batches."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:  # one restart at most, also where `last_epoch` is rounds ahead
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            self._place(epoch)
        self.last_epoch = floor(epoch)
        self._get_lr_called_within_step = True
        try:
            values = self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        self._own_write(values)

    def _place(self, epoch):
        if epoch < 0:
            raise ValueError(f"CosineAnnealingWarmRestarts: epoch must not be negative, got {shown(epoch)}")
        self.T_i, self.T_cur = self.T_0, epoch
        if epoch < self.T_0:
            return
        if self.T_mult == 1:
            self.T_cur = epoch % self.T_0
            return
        restarts = int(log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
        self.T_cur = epoch - self.T_0 * (self.T_mult**restarts - 1) / (self.T_mult - 1)
        self.T_i = self.T_0 * self.T_mult**restarts


def _cosine(start, end, share):
    return end + (start - end) / 2.0 * (cos(pi * share) + 1)


def _linear(start, end, share):
    return (end - start) * share + start


_ANNEAL = {"cos": _cosine, "linear": _linear}


def _phase(end_step, start_lr, end_lr, start_momentum, end_momentum):
    return {"end_step": end_step, "start_lr": start_lr, "end_lr": end_lr,
            "start_momentum": start_momentum, "end_momentum": end_momentum}


class OneCycleLR(LRScheduler):
    """lr rises from max_lr / div_factor to max_lr, then falls to a tiny rate, once   (Smith and Topin 2018).

    Called after every batch. Momentum moves the other way.

    >>> import flambeau
    >>> opt = flambeau.optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> schedule = flambeau.optim.lr_scheduler.OneCycleLR(opt, max_lr=1.0, total_steps=10)
    >>> for _ in range(2):
    ...     opt.step()
    ...     schedule.step()
    >>> schedule.get_last_lr(), opt.param_groups[0]["momentum"]
    ([1.0], 0.85)
    """

    def __init__(self, optimizer, max_lr, total_steps=None, epochs=None, steps_per_epoch=None, pct_start=0.3,
                 anneal_strategy="cos", cycle_momentum=True, base_momentum=0.85, max_momentum=0.95, div_factor=25.0,
                 final_div_factor=1e4, three_phase=False, last_epoch=-1):
        check_optimizer(self, optimizer)
        self.optimizer = optimizer
        self.total_steps = self._total(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"OneCycleLR: pct_start must be a float between 0 and 1, got {shown(pct_start)}")
        if anneal_strategy not in _ANNEAL:
            raise ValueError(f"OneCycleLR: anneal_strategy must be 'cos' or 'linear', got {shown(anneal_strategy)}")
        self._schedule_phases = self._phases(pct_start, three_phase)
        self._anneal_func_type = anneal_strategy
        if last_epoch == -1:
            for top, group in zip(per_group(optimizer, "max_lr", max_lr), optimizer.param_groups):
                group["initial_lr"] = top / div_factor
                group["max_lr"] = top
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _momentum_kind(optimizer)
            if last_epoch == -1:
                self._begin_momentum(base_momentum, max_momentum)
        super().__init__(optimizer, last_epoch)

    def _begin_momentum(self, base, high):
        lows = per_group(self.optimizer, "base_momentum", base)
        tops = per_group(self.optimizer, "max_momentum", high)
        for low, top, group in zip(lows, tops, self.optimizer.param_groups):
            _set_momentum(group, top, self.use_beta1)
            group["max_momentum"] = top
            group["base_momentum"] = low

    @staticmethod
    def _total(total_steps, epochs, steps_per_epoch):
        if total_steps is not None:
            _check_counts("OneCycleLR", total_steps=total_steps)
            return total_steps
        if epochs is None or steps_per_epoch is None:
            raise ValueError("OneCycleLR: the length is missing; pass total_steps, or epochs and steps_per_epoch")
        _check_counts("OneCycleLR", epochs=epochs, steps_per_epoch=steps_per_epoch)
        return epochs * steps_per_epoch

    def _phases(self, pct_start, three_phase):
        up = float(pct_start * self.total_steps) - 1
        rise = _phase(up, "initial_lr", "max_lr", "max_momentum", "base_momentum")
        last = self.total_steps - 1
        if three_phase:
            return [rise,
                    _phase(float(2 * pct_start * self.total_steps) - 2, "max_lr", "initial_lr", "base_momentum",
                           "max_momentum"),
                    _phase(last, "initial_lr", "min_lr", "max_momentum", "max_momentum")]
        return [rise, _phase(last, "max_lr", "min_lr", "base_momentum", "max_momentum")]

    def get_lr(self):
        """The rates for `last_epoch`; writes the momenta into the groups."""
        self._own_warn_outside_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"OneCycleLR: step {shown(step)} lies past the end of the schedule, "
                             f"total_steps={self.total_steps}")
        begin = 0.0
        for phase in self._schedule_phases:
            end = phase["end_step"]
            if step <= end or phase is self._schedule_phases[-1]:
                break
            begin = end
        share = (step - begin) / (end - begin)
        anneal = _ANNEAL[self._anneal_func_type]
        lrs = []
        for group in self.optimizer.param_groups:
            lrs.append(anneal(group[phase["start_lr"]], group[phase["end_lr"]], share))
            if self.cycle_momentum:
                momentum = anneal(group[phase["start_momentum"]], group[phase["end_momentum"]], share)
                _set_momentum(group, momentum, self.use_beta1)
        return lrs
