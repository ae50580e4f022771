"""Muon: momentum whose matrix is made orthogonal before it is applied, for the weights of hidden layers."""

import math

import flambeau

from ._composed import ComposedOptimizer
from .optimizer import _check, _check_rate

_ADJUST = ("original", "match_rms_adamw")


def _orthogonal(grad, coefficients, steps, eps):
    """Newton-Schulz: an odd polynomial moves every singular value towards 1; in bfloat16, as the law allows."""
    a, b, c = coefficients
    x = grad.bfloat16()
    tall = x.size(0) > x.size(1)
    if tall:
        x = x.T
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = flambeau.addmm(x, flambeau.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


class Muon(ComposedOptimizer):
    """m <- mu m + (1 - mu) g;  p <- p - lr s NewtonSchulz(m)   (Jordan 2024; s by the matrix's shape), 2-d only.

    >>> import flambeau
    >>> w = flambeau.zeros(2, 2, requires_grad=True)
    >>> opt = flambeau.optim.Muon([w], lr=0.1)
    >>> (w * flambeau.eye(2)).sum().backward()
    >>> opt.step()
    >>> w[0, 0].item() < -0.05
    True
    """

    _group_defaults = {}

    def __init__(self, params, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True,
                 ns_coefficients=(3.4445, -4.7750, 2.0315), eps=1e-7, ns_steps=5, adjust_lr_fn=None):
        _check_rate(type(self).__name__, lr)
        _check("momentum value", momentum, momentum >= 0, "a number >= 0")
        _check("weight_decay value", weight_decay, weight_decay >= 0, "a number >= 0")
        _check("adjust_lr_fn", adjust_lr_fn, adjust_lr_fn is None or adjust_lr_fn in _ADJUST, f"one of {_ADJUST}")
        _check("ns_coefficients", ns_coefficients, len(ns_coefficients) == 3, "three numbers")
        _check("ns_steps", ns_steps, 0 <= ns_steps < 100, "a number of steps below 100")
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
                                  "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps,
                                  "adjust_lr_fn": adjust_lr_fn})
        for group in self.param_groups:
            for param in group["params"]:
                if param.ndim != 2:
                    raise ValueError(f"Muon: parameters must have 2 dimensions, got shape {list(param.shape)}; give "
                                     "the others to another optimizer")

    def _step_one(self, param, group):
        if param.grad.layout is not flambeau.strided:
            self._own_check_sparse(group)
        if param.grad.is_complex() or param.is_complex():
            raise RuntimeError(f"Muon: parameters must be real, got {param.dtype}")
        state = self.state[param]
        if not state:
            state["momentum_buffer"] = flambeau.zeros_like(param.grad)
        grad, buffer = param.grad, state["momentum_buffer"]
        buffer.lerp_(grad, 1 - group["momentum"])
        update = grad.lerp(buffer, group["momentum"]) if group["nesterov"] else buffer
        update = _orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = param.shape[:2]
        if group["adjust_lr_fn"] == "match_rms_adamw":
            scale = 0.2 * math.sqrt(max(rows, columns))
        else:
            scale = math.sqrt(max(1, rows / columns))
        lr = float(group["lr"])
        param.mul_(1 - lr * group["weight_decay"])
        param.add_(update.to(param.dtype), alpha=-lr * scale)
