"""RMSprop: steps divided by the root of a running mean of squares."""

import flambeau

from ._composed import decay
from ._lists import step_on_lists
from ._recorded import add_quotient, add_scaled, learned
from .optimizer import Optimizer, _check, _check_rate, _counts_to_tensors, _loss_of, step_count

_MAXIMIZE, _MOMENTUM, _CENTERED = 1, 4, 32  # native/kernels/optim_step.h


class RMSprop(Optimizer):
    """v <- alpha v + (1 - alpha) g^2;  p <- p - lr g / (sqrt(v) + eps)   (Hinton's lecture 6e).

    `centered` takes the squared mean gradient off v (Graves 2013); `momentum` accumulates the steps.

    >>> import flambeau
    >>> w = flambeau.tensor([1.0], requires_grad=True)
    >>> opt = flambeau.optim.RMSprop([w], lr=0.1)
    >>> w.sum().backward()
    >>> opt.step()
    >>> round(w.item(), 4)
    0.0
    """

    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False,
                 capturable=False, foreach=None, maximize=False, differentiable=False):
        _check_rate(type(self).__name__, lr)
        _check("epsilon value", eps, eps >= 0, "a number >= 0")
        _check("momentum value", momentum, momentum >= 0, "a number >= 0")
        _check("weight_decay value", weight_decay, weight_decay >= 0, "a number >= 0")
        _check("alpha value", alpha, alpha >= 0, "a number >= 0")
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable})

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("momentum", 0)
            for name in ("centered", "maximize", "capturable", "differentiable"):
                group.setdefault(name, False)
            group.setdefault("foreach", None)
        _counts_to_tensors(self)

    def _keys(self, group):
        return ("step", "square_avg", "momentum_buffer" if group["momentum"] > 0 else None,
                "grad_avg" if group["centered"] else None)

    def _own_begin(self, param, state, group):
        if "step" not in state:
            state["step"] = step_count(param, group)
        for key in self._keys(group)[1:]:
            if key is not None and key not in state:
                state[key] = flambeau.zeros_like(param, memory_format=flambeau.preserve_format)

    def _update(self, param, grad, state, group, step):
        alpha, lr = group["alpha"], learned(group["lr"])
        grad = decay(param, grad, group)
        square = state["square_avg"]
        square.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if group["centered"]:
            state["grad_avg"].lerp_(grad, 1 - alpha)
            square = square - state["grad_avg"] ** 2
        scale = square.sqrt() + group["eps"]
        if group["momentum"] > 0:
            change = state["momentum_buffer"].mul_(group["momentum"]).addcdiv_(grad, scale)
            add_scaled(param, change, -lr)
        else:
            add_quotient(param, grad, scale, -lr)

    def step(self, closure=None):
        """One update; returns the closure's loss."""
        loss = _loss_of(closure) if closure is not None else None
        for group in self.param_groups:
            flags = ((_MAXIMIZE if group["maximize"] else 0) | (_CENTERED if group["centered"] else 0)
                     | (_MOMENTUM if group["momentum"] > 0 else 0))
            numbers = (group["lr"], group["weight_decay"], group["eps"], group["alpha"], group["momentum"])
            self._own_native_step(2, group, self._keys(group), numbers, flags)
        return loss


def rmsprop(params, grads, square_avgs, grad_avgs, momentum_buffer_list, state_steps, foreach=None, maximize=False,
            differentiable=False, capturable=False, has_complex=False, *, lr, alpha, eps, weight_decay, momentum,
            centered):
    """One step of RMSprop for lists of parameters, gradients and what it keeps of them, which change in place."""
    states = {"step": state_steps, "square_avg": square_avgs, "momentum_buffer": momentum_buffer_list if momentum else
              None, "grad_avg": grad_avgs if centered else None}
    options = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum, "centered":
               centered, "maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable":
               differentiable}
    step_on_lists(RMSprop, params, grads, states, options)
