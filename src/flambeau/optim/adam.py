"""Adam and AdamW: steps scaled by running means of the gradient and of its square."""

import flambeau

from ._composed import decay
from ._lists import step_on_lists
from ._recorded import add_quotient, learned
from .optimizer import Optimizer, _check, _check_rate, _counts_to_tensors, _loss_of, step_count

_MAXIMIZE, _AMSGRAD, _DECOUPLED = 1, 8, 16  # native/kernels/optim_step.h
_KEYS = {False: ("step", "exp_avg", "exp_avg_sq", None), True: ("step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq")}


class Adam(Optimizer):
    """m <- b1 m + (1-b1) g;  v <- b2 v + (1-b2) g^2;  p <- p - lr (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps).

    Kingma and Ba 2015. `amsgrad` divides by the largest v seen (Reddi et al. 2018); `weight_decay` adds to the
    gradient, or with `decoupled_weight_decay` shrinks the parameter by lr * weight_decay (Loshchilov and Hutter 2019).

    >>> import flambeau
    >>> w = flambeau.tensor([1.0, -3.0], requires_grad=True)
    >>> opt = flambeau.optim.Adam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> [round(x, 4) for x in w.tolist()]
    [0.9, -2.9]
    """

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *, foreach=None,
                 maximize=False, capturable=False, differentiable=False, fused=None, decoupled_weight_decay=False):
        _check_rate(type(self).__name__, lr)
        _check("epsilon value", eps, eps >= 0, "a number >= 0")
        for i, beta in enumerate(betas):
            _check(f"beta parameter at index {i}", beta, 0 <= beta < 1, "a number in [0, 1)")
        _check("weight_decay value", weight_decay, weight_decay >= 0, "a number >= 0")
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "differentiable": differentiable, "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay})

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name in ("amsgrad", "maximize", "capturable", "differentiable"):
                group.setdefault(name, False)
            group.setdefault("decoupled_weight_decay", isinstance(self, AdamW))
            group.setdefault("foreach", None)
            group.setdefault("fused", None)
        _counts_to_tensors(self)

    def _own_begin(self, param, state, group):
        if "step" not in state:
            state["step"] = step_count(param, group)
        for key in _KEYS[bool(group["amsgrad"])][1:]:
            if key is not None and key not in state:
                state[key] = flambeau.zeros_like(param, memory_format=flambeau.preserve_format)

    def _update(self, param, grad, state, group, step):
        beta1, beta2 = map(learned, group["betas"])
        grad = decay(param, grad, group)
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.add_((grad - mean) * (1 - beta1))
        square.copy_(square.clone() * beta2 + grad * grad * (1 - beta2))
        if group["amsgrad"]:
            state["max_exp_avg_sq"].copy_(flambeau.maximum(state["max_exp_avg_sq"].clone(), square))
            square = state["max_exp_avg_sq"]
        scale = square.sqrt() / (1 - beta2**step) ** 0.5 + group["eps"]
        add_quotient(param, mean, scale, -(learned(group["lr"]) / (1 - beta1**step)))

    def step(self, closure=None):
        """One update; returns the closure's loss."""
        loss = _loss_of(closure) if closure is not None else None
        for group in self.param_groups:
            amsgrad = bool(group["amsgrad"])
            beta1, beta2 = group["betas"]
            flags = ((_MAXIMIZE if group["maximize"] else 0) | (_AMSGRAD if amsgrad else 0)
                     | (_DECOUPLED if group["decoupled_weight_decay"] else 0))
            numbers = (group["lr"], group["weight_decay"], group["eps"], beta1, beta2)
            self._own_native_step(1, group, _KEYS[amsgrad], numbers, flags)
        return loss


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameter itself: p <- p (1 - lr weight_decay)  (Loshchilov and Hutter 2019).

    >>> import flambeau
    >>> w = flambeau.tensor([1.0], requires_grad=True)
    >>> opt = flambeau.optim.AdamW([w], lr=0.1, weight_decay=0.5)
    >>> (w * 0).sum().backward()
    >>> opt.step()
    >>> round(w.item(), 4)
    0.95
    """

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *,
                 maximize=False, foreach=None, capturable=False, differentiable=False, fused=None):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
                         capturable=capturable, differentiable=differentiable, fused=fused,
                         decoupled_weight_decay=True)


def adam(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, foreach=None, capturable=False,
         differentiable=False, fused=None, grad_scale=None, found_inf=None, has_complex=False,
         decoupled_weight_decay=False, *, amsgrad, beta1, beta2, lr, weight_decay, eps, maximize):
    """One step of Adam for lists of parameters, gradients and what it keeps of them, which change in place."""
    states = {"step": state_steps, "exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "max_exp_avg_sq": max_exp_avg_sqs if
              amsgrad else None}
    options = {"lr": lr, "betas": (beta1, beta2), "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
               "maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
               "fused": fused, "decoupled_weight_decay": decoupled_weight_decay}
    step_on_lists(Adam, params, grads, states, options, grad_scale, found_inf)


def adamw(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, foreach=None, capturable=False,
          differentiable=False, fused=None, grad_scale=None, found_inf=None, has_complex=False, *, amsgrad, beta1,
          beta2, lr, weight_decay, eps, maximize):
    """`adam` whose weight decay shrinks the parameters themselves."""
    adam(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, foreach, capturable, differentiable, fused,
         grad_scale, found_inf, has_complex, True, amsgrad=amsgrad, beta1=beta1, beta2=beta2, lr=lr,
         weight_decay=weight_decay, eps=eps, maximize=maximize)
