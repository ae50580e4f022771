"""RAdam: Adam that waits until its second moment can be trusted."""

from math import sqrt

from ._composed import ComposedOptimizer, decay, number, zeros
from ._lists import step_on_lists
from ._recorded import learned
from .optimizer import _check, _check_rate


class RAdam(ComposedOptimizer):
    """Adam whose step is rectified by the variance of its second moment   (Liu et al. 2020).

    While too few steps were taken (rho_t <= 5), p <- p - lr m / (1 - b1^t) alone.

    >>> import flambeau
    >>> w = flambeau.tensor([1.0], requires_grad=True)
    >>> opt = flambeau.optim.RAdam([w], lr=0.1)
    >>> w.sum().backward()
    >>> opt.step()
    >>> round(w.item(), 4)
    0.9
    """

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, decoupled_weight_decay=False, *,
                 foreach=None, maximize=False, capturable=False, differentiable=False):
        _check_rate(type(self).__name__, lr)
        _check("epsilon value", eps, eps >= 0, "a number >= 0")
        for i, beta in enumerate(betas):
            _check(f"beta parameter at index {i}", beta, 0 <= beta < 1, "a number in [0, 1)")
        _check("weight_decay value", weight_decay, weight_decay >= 0, "a number >= 0")
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "foreach": foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable})

    def _own_begin(self, param, state, group):
        state["step"] = number(0)
        state["exp_avg"] = zeros(param)
        state["exp_avg_sq"] = zeros(param)

    def _update(self, param, grad, state, group, step):
        beta1, beta2 = group["betas"]
        grad = decay(param, grad, group)
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        bias1, bias2 = 1 - beta1**step, 1 - beta2**step
        limit = 2 / (1 - beta2) - 1
        rho = limit - 2 * step * (beta2**step) / bias2
        direction = mean / bias1 * learned(group["lr"])
        if rho > 5.0:
            rect = sqrt((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho))
            scale = sqrt(bias2) / (square.sqrt() + group["eps"])
            param.sub_(direction * scale * rect)
        else:
            param.sub_(direction)


def radam(params, grads, exp_avgs, exp_avg_sqs, state_steps, decoupled_weight_decay=False, foreach=None,
          differentiable=False, capturable=False, has_complex=False, maximize=False, *, beta1, beta2, lr, weight_decay,
          eps):
    """One step of RAdam for lists of parameters, gradients and what it keeps of them, which change in place."""
    states = {"step": state_steps, "exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs}
    options = {"lr": lr, "betas": (beta1, beta2), "eps": eps, "weight_decay": weight_decay, "decoupled_weight_decay":
               decoupled_weight_decay, "maximize": maximize, "foreach": foreach, "capturable": capturable,
               "differentiable": differentiable}
    step_on_lists(RAdam, params, grads, states, options)
