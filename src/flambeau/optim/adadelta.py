"""Adadelta: steps in the units of the parameter itself."""

import flambeau

from ._composed import decay
from ._lists import step_on_lists
from ._recorded import add_scaled, learned
from .optimizer import Optimizer, _check, _check_rate, _counts_to_tensors, _loss_of, step_count

_KEYS = ("step", "square_avg", "acc_delta", None)


class Adadelta(Optimizer):
    """v <- rho v + (1-rho) g^2;  d = sqrt(u + eps) / sqrt(v + eps) g;  u <- rho u + (1-rho) d^2;  p <- p - lr d.

    Zeiler 2012.

    >>> import flambeau
    >>> w = flambeau.tensor([1.0], requires_grad=True)
    >>> opt = flambeau.optim.Adadelta([w])
    >>> w.sum().backward()
    >>> opt.step()
    >>> round(w.item(), 5)
    0.99684
    """

    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, foreach=None, *, capturable=False,
                 maximize=False, differentiable=False):
        _check_rate(type(self).__name__, lr)
        _check("rho value", rho, 0 <= rho <= 1, "a number in [0, 1]")
        _check("epsilon value", eps, eps >= 0, "a number >= 0")
        _check("weight_decay value", weight_decay, weight_decay >= 0, "a number >= 0")
        super().__init__(params, {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable})

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name in ("maximize", "capturable", "differentiable"):
                group.setdefault(name, False)
            group.setdefault("foreach", None)
        _counts_to_tensors(self)

    def _own_begin(self, param, state, group):
        if "step" not in state:
            state["step"] = step_count(param, group)
        for key in _KEYS[1:3]:
            if key not in state:
                state[key] = flambeau.zeros_like(param, memory_format=flambeau.preserve_format)

    def _update(self, param, grad, state, group, step):
        rho, eps = group["rho"], group["eps"]
        grad = decay(param, grad, group)
        square, moved = state["square_avg"], state["acc_delta"]
        square.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        change = (moved + eps).sqrt() / (square + eps).sqrt() * grad
        moved.mul_(rho).addcmul_(change, change, value=1 - rho)
        add_scaled(param, change, -learned(group["lr"]))

    def step(self, closure=None):
        """One update; returns the closure's loss."""
        loss = _loss_of(closure) if closure is not None else None
        for group in self.param_groups:
            numbers = (group["lr"], group["weight_decay"], group["eps"], group["rho"], 0.0)
            self._own_native_step(3, group, _KEYS, numbers, 1 if group["maximize"] else 0)
        return loss


def adadelta(params, grads, square_avgs, acc_deltas, state_steps, capturable=False, foreach=None, differentiable=False,
             has_complex=False, *, lr, rho, eps, weight_decay, maximize):
    """One step of Adadelta for lists of parameters, gradients and what it keeps of them, which change in place."""
    states = {"step": state_steps, "square_avg": square_avgs, "acc_delta": acc_deltas}
    options = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize, "foreach": foreach,
               "capturable": capturable, "differentiable": differentiable}
    step_on_lists(Adadelta, params, grads, states, options)
