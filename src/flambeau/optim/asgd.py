"""Averaged stochastic gradient descent."""

import flambeau

from ._composed import ComposedOptimizer, decay, number, zeros
from ._lists import step_on_lists
from ._recorded import add_scaled, learned
from .optimizer import _check, _check_rate


class ASGD(ComposedOptimizer):
    """p <- (1 - lambd eta) p - eta g;  ax <- ax + mu (p - ax)   (Polyak and Juditsky 1992).

    eta = lr / (1 + lambd lr t)^alpha;  mu = 1 / max(1, t - t0). The average `ax` stands in the state.

    >>> import flambeau
    >>> w = flambeau.tensor([1.0], requires_grad=True)
    >>> opt = flambeau.optim.ASGD([w], lr=0.1)
    >>> w.sum().backward()
    >>> opt.step()
    >>> round(w.item(), 4)
    0.9
    """

    def __init__(self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, foreach=None, maximize=False,
                 differentiable=False, capturable=False):
        _check_rate(type(self).__name__, lr)
        _check("weight_decay value", weight_decay, weight_decay >= 0, "a number >= 0")
        super().__init__(params, {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable})

    def _own_begin(self, param, state, group):
        state["step"] = number(0)
        lr = learned(group["lr"])
        state["eta"] = lr.clone() if isinstance(lr, flambeau.Tensor) else number(lr)
        state["mu"] = number(1)
        state["ax"] = zeros(param)

    def _update(self, param, grad, state, group, step):
        grad = decay(param, grad, group)
        eta, mu, average = learned(state["eta"].clone()), state["mu"].item(), state["ax"]
        param.mul_(1 - group["lambd"] * eta)
        add_scaled(param, grad, -eta)
        if mu != 1:
            average.add_(param.sub(average).mul_(mu))
        else:
            average.copy_(param)
        lr = learned(group["lr"])
        state["eta"].copy_(flambeau.as_tensor(lr / ((1 + group["lambd"] * lr * step) ** group["alpha"])))
        state["mu"].copy_(number(1 / max(1, step - group["t0"])))


def asgd(params, grads, axs, mus, etas, state_steps, foreach=None, maximize=False, differentiable=False,
         capturable=False, has_complex=False, *, lambd, lr, t0, alpha, weight_decay):
    """One step of ASGD for lists of parameters, gradients and what it keeps of them, which change in place."""
    states = {"step": state_steps, "eta": etas, "mu": mus, "ax": axs}
    options = {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "maximize": maximize,
               "foreach": foreach, "capturable": capturable, "differentiable": differentiable}
    step_on_lists(ASGD, params, grads, states, options)
