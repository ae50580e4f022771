"""Stochastic gradient descent, with momentum."""

import flambeau

from .._shown import shown
from ._composed import decay
from ._lists import step_on_lists
from ._recorded import add_scaled, learned
from .optimizer import Optimizer, _check, _check_rate, _loss_of

_MAXIMIZE, _NESTEROV, _MOMENTUM = 1, 2, 4  # native/kernels/optim_step.h


class SGD(Optimizer):
    """v <- momentum v + (1 - dampening) g;  p <- p - lr v   (Polyak 1964; Nesterov's form looks one v ahead).

    The first v is g itself.

    >>> import flambeau
    >>> w = flambeau.tensor([1.0, 2.0], requires_grad=True)
    >>> opt = flambeau.optim.SGD([w], lr=0.1, momentum=0.9)
    >>> for _ in range(2):
    ...     opt.zero_grad()
    ...     w.sum().backward()
    ...     opt.step()
    >>> [round(x, 4) for x in w.tolist()]
    [0.71, 1.71]
    """

    def __init__(self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, maximize=False,
                 foreach=None, differentiable=False, fused=None):
        _check_rate(type(self).__name__, lr)
        _check("momentum value", momentum, momentum >= 0, "a number >= 0")
        _check("weight_decay value", weight_decay, weight_decay >= 0, "a number >= 0")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("SGD: nesterov=True needs momentum above 0 and dampening 0, got "
                             f"momentum={shown(momentum)} and "
                             f"dampening={shown(dampening)}")
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov,
            "maximize": maximize, "foreach": foreach, "differentiable": differentiable, "fused": fused})

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name in ("nesterov", "maximize", "differentiable"):
                group.setdefault(name, False)
            group.setdefault("foreach", None)
            group.setdefault("fused", None)

    def _own_prepare(self, param, state, group):
        if group["momentum"] and state.get("momentum_buffer") is None:
            self._own_begin(param, state, group)

    def _update(self, param, grad, state, group, step):
        """The first momentum (step 0) is the gradient itself."""
        grad = decay(param, grad, group)
        momentum = group["momentum"]
        if momentum:
            change = state["momentum_buffer"]
            change.mul_(momentum).add_(grad, alpha=1 - group["dampening"] if step else 1)
            grad = grad + change * momentum if group["nesterov"] else change
        add_scaled(param, grad, -learned(group["lr"]))

    def _own_begin(self, param, state, group):
        state["momentum_buffer"] = flambeau.zeros_like(param, memory_format=flambeau.preserve_format)

    def _own_sparse_step(self, param, grad, state, group):
        """The same law; momentum stays sparse as long as all gradients are."""
        grad = -grad if group["maximize"] else grad
        if group["weight_decay"]:
            grad = param * float(group["weight_decay"]) + grad
        if group["momentum"]:
            before = state.get("momentum_buffer")
            kept = 1 - group["dampening"]
            state["momentum_buffer"] = grad.clone() if before is None else before * group["momentum"] + grad * kept
            grad = grad + state["momentum_buffer"] * group["momentum"] if group["nesterov"] else \
                state["momentum_buffer"]
        param.add_(grad, alpha=-float(group["lr"]))

    def step(self, closure=None):
        """One update; returns the closure's loss."""
        loss = _loss_of(closure) if closure is not None else None
        for group in self.param_groups:
            momentum = group["momentum"]
            flags = ((_MAXIMIZE if group["maximize"] else 0) | (_NESTEROV if group["nesterov"] else 0)
                     | (_MOMENTUM if momentum else 0))
            keys = (None, "momentum_buffer" if momentum else None, None, None)
            numbers = (group["lr"], group["weight_decay"], 0.0, momentum, group["dampening"])
            self._own_native_step(0, group, keys, numbers, flags)
        return loss


def sgd(params, d_p_list, momentum_buffer_list, has_sparse_grad=False, foreach=None, fused=None, grad_scale=None,
        found_inf=None, *, weight_decay, momentum, lr, dampening, nesterov, maximize):
    """One step of SGD for lists of parameters, gradients and what it keeps of them, which change in place."""
    states = {"momentum_buffer": momentum_buffer_list if momentum else None}
    options = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov":
               nesterov, "maximize": maximize, "foreach": foreach, "fused": fused}
    step_on_lists(SGD, params, d_p_list, states, options, grad_scale, found_inf)
