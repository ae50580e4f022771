"""NAdam: Adam with Nesterov's look ahead."""

from ._composed import ComposedOptimizer, decay, number, zeros
from ._lists import step_on_lists
from ._recorded import add_quotient, learned
from .optimizer import _check, _check_rate


class NAdam(ComposedOptimizer):
    """Adam whose first moment looks one step ahead, with a momentum schedule mu_t   (Dozat 2016).

    mu_t = b1 (1 - 0.96^(t momentum_decay) / 2);
    p <- p - lr (1-mu_t) / (1 - prod mu) g / d - lr mu_(t+1) / (1 - prod mu mu_(t+1)) m / d
    with d = sqrt(v / (1-b2^t)) + eps

    >>> import flambeau
    >>> w = flambeau.tensor([1.0], requires_grad=True)
    >>> opt = flambeau.optim.NAdam([w], lr=0.1)
    >>> w.sum().backward()
    >>> opt.step()
    >>> round(w.item(), 4)
    0.8944
    """

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3,
                 decoupled_weight_decay=False, *, foreach=None, maximize=False, capturable=False, differentiable=False):
        _check_rate(type(self).__name__, lr)
        _check("epsilon value", eps, eps >= 0, "a number >= 0")
        for i, beta in enumerate(betas):
            _check(f"beta parameter at index {i}", beta, 0 <= beta < 1, "a number in [0, 1)")
        _check("weight_decay value", weight_decay, weight_decay >= 0, "a number >= 0")
        _check("momentum_decay value", momentum_decay, momentum_decay >= 0, "a number >= 0")
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable})

    def _own_begin(self, param, state, group):
        state["step"] = number(0)
        state["mu_product"] = number(1)
        state["exp_avg"] = zeros(param)
        state["exp_avg_sq"] = zeros(param)

    def _update(self, param, grad, state, group, step):
        beta1, beta2 = group["betas"]
        lr, slope = learned(group["lr"]), group["momentum_decay"]
        grad = decay(param, grad, group)
        mu = beta1 * (1.0 - 0.5 * 0.96 ** (step * slope))
        mu_next = beta1 * (1.0 - 0.5 * 0.96 ** ((step + 1) * slope))
        state["mu_product"] *= mu
        product = learned(state["mu_product"])
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        scale = square.div(1 - beta2**step).sqrt() + group["eps"]
        add_quotient(param, grad, scale, -lr * (1.0 - mu) / (1.0 - product))
        add_quotient(param, mean, scale, -lr * mu_next / (1.0 - product * mu_next))


def nadam(params, grads, exp_avgs, exp_avg_sqs, mu_products, state_steps, decoupled_weight_decay=False, foreach=None,
          capturable=False, differentiable=False, has_complex=False, maximize=False, *, beta1, beta2, lr, weight_decay,
          momentum_decay, eps):
    """One step of NAdam for lists of parameters, gradients and what it keeps of them, which change in place."""
    states = {"step": state_steps, "mu_product": mu_products, "exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs}
    options = {"lr": lr, "betas": (beta1, beta2), "eps": eps, "weight_decay": weight_decay, "momentum_decay":
               momentum_decay, "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach":
               foreach, "capturable": capturable, "differentiable": differentiable}
    step_on_lists(NAdam, params, grads, states, options)
