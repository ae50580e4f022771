"""Averages of a model's weights over training: running means (SWA), exponential ones (EMA), and their schedule."""

import itertools
import math
from copy import deepcopy
from warnings import warn

import flambeau

from .._shown import shown
from ..nn import Module
from ..nn.modules.batchnorm import _BatchNorm
from .lr_scheduler import LRScheduler


def get_ema_multi_avg_fn(decay=0.999):
    """averaged <- decay averaged + (1 - decay) current, for lists of tensors."""
    _check_decay(decay)

    @flambeau.no_grad()
    def ema_update(ema_param_list, current_param_list, _):
        for ema, current in zip(ema_param_list, current_param_list):
            if ema.is_floating_point() or ema.is_complex():
                ema.lerp_(current, 1 - decay)
            else:
                ema.copy_(ema * decay + current * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn():
    """averaged <- averaged + (current - averaged) / (n + 1), for lists of tensors."""

    @flambeau.no_grad()
    def swa_update(averaged_param_list, current_param_list, num_averaged):
        for averaged, current in zip(averaged_param_list, current_param_list):
            if averaged.is_floating_point() or averaged.is_complex():
                averaged.lerp_(current, 1 / (float(num_averaged) + 1))
            else:
                averaged.add_((current - averaged).div(num_averaged + 1).to(averaged.dtype))

    return swa_update


def get_ema_avg_fn(decay=0.999):
    """The same exponential mean, for one tensor: returns it."""
    _check_decay(decay)

    @flambeau.no_grad()
    def ema_update(ema_param, current_param, num_averaged):
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn():
    """The same running mean, for one tensor: returns it."""

    @flambeau.no_grad()
    def swa_update(averaged_param, current_param, num_averaged):
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def _check_decay(decay):
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"AveragedModel: decay must be between 0 and 1, got {shown(decay)}")


class AveragedModel(Module):
    """A copy of a model whose weights are means over those it is updated with (a running mean unless told otherwise).

    avg_fn(averaged, current, number) gives one tensor's mean, multi_avg_fn changes lists of them in place.
    use_buffers: also averages buffers, which are otherwise copied.

    >>> import flambeau
    >>> model = flambeau.nn.Linear(1, 1, bias=False)
    >>> mean = flambeau.optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 3.0):
    ...     _ = flambeau.nn.init.constant_(model.weight, value)
    ...     mean.update_parameters(model)
    >>> mean.module.weight.item()
    2.0
    """

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("AveragedModel: avg_fn and multi_avg_fn say the same thing; pass one of them")
        copy = deepcopy(model)
        self.module = copy if device is None else copy.to(device)
        self.register_buffer("n_averaged", flambeau.zeros((), dtype=flambeau.int64, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args, **kwargs):
        """The averaged model's result."""
        return self.module(*args, **kwargs)

    def _pairs(self, model):
        def all_of(module):
            return itertools.chain(module.parameters(), module.buffers() if self.use_buffers else ())

        return [(own.detach(), other.detach().to(own.device)) for own, other in zip(all_of(self.module), all_of(model))]

    def update_parameters(self, model):
        """Takes the model's present weights into the means."""
        pairs = self._pairs(model)
        if self.n_averaged == 0:
            for own, other in pairs:
                own.copy_(other)
        elif self.avg_fn is not None:
            for own, other in pairs:
                own.copy_(self.avg_fn(own, other, self.n_averaged.to(own.device)))
        elif pairs:
            update = self.multi_avg_fn or get_swa_multi_avg_fn()
            update([own for own, _ in pairs], [other for _, other in pairs], self.n_averaged)
        if not self.use_buffers:
            for own, other in zip(self.module.buffers(), model.buffers()):
                own.detach().copy_(other.detach())
        self.n_averaged += 1


def update_bn(loader, model, device=None):
    """Sets the running statistics of batch-norm layers to those of one pass over `loader`."""
    layers = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    if not layers:
        return
    momenta = {layer: layer.momentum for layer in layers}
    was_training = model.training
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # a plain mean over the batches
    model.train()
    with flambeau.no_grad():
        for batch in loader:
            inputs = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(inputs if device is None else inputs.to(device))
    for layer, momentum in momenta.items():
        layer.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Moves every group's learning rate to `swa_lr` within `anneal_epochs` steps, then keeps it."""

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1):
        rates = swa_lr if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(optimizer.param_groups)
        if len(rates) != len(optimizer.param_groups):
            raise ValueError(f"SWALR: swa_lr must hold one value per parameter group, {len(optimizer.param_groups)}, "
                             f"got {len(rates)}")
        for rate, group in zip(rates, optimizer.param_groups):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"SWALR: anneal_strategy must be 'cos' or 'linear', got {shown(anneal_strategy)}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"SWALR: anneal_epochs must be an int that is not negative, got {shown(anneal_epochs)}")
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, t):
        """How much of the way is done at t in [0, 1]."""
        return (1 - math.cos(math.pi * t)) / 2 if self._anneal_strategy == "cos" else t

    def get_lr(self):
        """The rates of this step, from the present ones."""
        if not self._get_lr_called_within_step:
            warn("get_lr() computes the next rates and belongs inside step(); call get_last_lr() for the rates in "
                 "use", stacklevel=2)
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before = self._share(max(0.0, min(1.0, (step - 1) / max(1, self.anneal_epochs))))
        now = self._share(max(0.0, min(1.0, step / max(1, self.anneal_epochs))))
        rates = []
        for group in self.optimizer.param_groups:
            target = group["swa_lr"]
            start = group["lr"] if before == 1 else (group["lr"] - before * target) / (1 - before)
            rates.append(target * now + start * (1 - now))
        return rates
