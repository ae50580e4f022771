"""Adamax: Adam in the infinity norm."""

import flambeau

from ._composed import ComposedOptimizer, decay, number, zeros
from ._lists import step_on_lists
from ._recorded import add_quotient, learned
from .optimizer import _check, _check_rate


class Adamax(ComposedOptimizer):
    """m <- b1 m + (1-b1) g;  u <- max(b2 u, |g| + eps);  p <- p - lr / (1 - b1^t) m / u   (Kingma and Ba 2015).

    >>> import flambeau
    >>> w = flambeau.tensor([1.0], requires_grad=True)
    >>> opt = flambeau.optim.Adamax([w], lr=0.1)
    >>> w.sum().backward()
    >>> opt.step()
    >>> round(w.item(), 4)
    0.9
    """

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, foreach=None, *, maximize=False,
                 differentiable=False, capturable=False):
        _check_rate(type(self).__name__, lr)
        _check("epsilon value", eps, eps >= 0, "a number >= 0")
        for i, beta in enumerate(betas):
            _check(f"beta parameter at index {i}", beta, 0 <= beta < 1, "a number in [0, 1)")
        _check("weight_decay value", weight_decay, weight_decay >= 0, "a number >= 0")
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable})

    def _own_begin(self, param, state, group):
        state["step"] = number(0)
        state["exp_avg"] = zeros(param)
        state["exp_inf"] = zeros(param)

    def _update(self, param, grad, state, group, step):
        beta1, beta2 = group["betas"]
        grad = decay(param, grad, group)
        mean, top = state["exp_avg"], state["exp_inf"]
        mean.lerp_(grad, 1 - beta1)
        top.copy_(flambeau.maximum(top * beta2, grad.abs() + group["eps"]))
        add_quotient(param, mean, top, -learned(group["lr"]) / (1 - beta1**step))


def adamax(params, grads, exp_avgs, exp_infs, state_steps, foreach=None, maximize=False, differentiable=False,
           capturable=False, has_complex=False, *, eps, beta1, beta2, lr, weight_decay):
    """One step of Adamax for lists of parameters, gradients and what it keeps of them, which change in place."""
    states = {"step": state_steps, "exp_avg": exp_avgs, "exp_inf": exp_infs}
    options = {"lr": lr, "betas": (beta1, beta2), "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
               "foreach": foreach, "capturable": capturable, "differentiable": differentiable}
    step_on_lists(Adamax, params, grads, states, options)
