"""The schedule that waits for a measured quantity to stop improving."""

from math import inf
from warnings import warn

from ..._shown import shown
from ._base import EPOCH_DEPRECATION_WARNING, LRScheduler, check_optimizer, copied, per_group, set_option


class ReduceLROnPlateau(LRScheduler):
    """lr <- max(lr * factor, min_lr) when the metric has not improved for more than `patience` epochs.

    >>> import flambeau
    >>> opt = flambeau.optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = flambeau.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=1)
    >>> for loss in (2.0, 1.0, 1.0, 1.0):
    ...     schedule.step(loss)
    >>> schedule.get_last_lr()
    [0.1]
    """

    def __init__(self, optimizer, mode="min", factor=0.1, patience=10, threshold=1e-4, threshold_mode="rel",
                 cooldown=0, min_lr=0, eps=1e-8):
        check_optimizer(self, optimizer)
        if factor >= 1.0:
            raise ValueError(f"ReduceLROnPlateau: factor must be below 1, got {shown(factor)}")
        self.factor = factor
        self.optimizer = optimizer
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.min_lrs = per_group(optimizer, "min_lrs", min_lr)
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = [copied(group["lr"]) for group in optimizer.param_groups]
        if mode not in ("min", "max"):
            raise ValueError(f"ReduceLROnPlateau: mode must be 'min' or 'max', got {shown(mode)}")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"ReduceLROnPlateau: threshold_mode must be 'rel' or 'abs', got {shown(threshold_mode)}")
        self.mode_worse = inf if mode == "min" else -inf
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self._reset()

    def _reset(self):
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics, epoch=None):
        """Takes one measurement."""
        if epoch is not None:
            warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._count(float(metrics))
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(self.last_epoch)
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = [copied(group["lr"]) for group in self.optimizer.param_groups]

    def _count(self, value):
        """Counts the epochs without improvement in a row; an epoch of the cooldown is none."""
        better, resting = self._is_better(value, self.best), self.in_cooldown
        self.best = value if better else self.best
        self.num_bad_epochs = 0 if better or resting else self.num_bad_epochs + 1
        self.cooldown_counter -= resting

    def _reduce_lr(self, epoch):
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(f"ReduceLROnPlateau: the optimizer has {len(groups)} parameter groups, min_lrs has "
                                   f"{len(self.min_lrs)} entries; add one to min_lrs for each group added since")
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, lowest in zip(groups, self.min_lrs):
            old = float(group["lr"])
            new = max(old * self.factor, lowest)
            if old - new > self.eps:
                set_option(group, "lr", new)

    @property
    def in_cooldown(self):
        """Whether bad epochs are not counted at the moment."""
        return self.cooldown_counter > 0

    def is_better(self, a, best):
        """Whether `a` improves on `best` by more than the threshold."""
        return self._is_better(a, best)

    def _is_better(self, a, best):
        sign = -1 if self.mode == "min" else 1
        if self.threshold_mode == "rel":
            bar = best * (1.0 + sign * self.threshold)
        else:
            bar = best + sign * self.threshold
        return a < bar if sign < 0 else a > bar
