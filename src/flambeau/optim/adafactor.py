"""Adafactor: Adam's second moment kept as sums of rows and columns, for matrices too large to keep it whole."""

import flambeau

from ._composed import ComposedOptimizer, number
from .optimizer import _check, _check_rate


class Adafactor(ComposedOptimizer):
    """Steps by g / sqrt(v), with v of a matrix factored into row and column means   (Shazeer and Stern 2018).

    v_t = b v + (1 - b) g^2 with b = 1 - t^beta2_decay; the step is limited to root mean square d and grows with that
    of the parameter: p <- p - max(eps2, RMS(p)) min(lr, 1 / sqrt(t)) u.

    >>> import flambeau
    >>> w = flambeau.ones(2, 2, requires_grad=True)
    >>> opt = flambeau.optim.Adafactor([w], lr=0.1)
    >>> w.sum().backward()
    >>> opt.step()
    >>> round(w[0, 0].item(), 4)
    0.9
    """

    _group_defaults = {"maximize": False, "foreach": None}

    def __init__(self, params, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0, *, foreach=None,
                 maximize=False):
        _check_rate(type(self).__name__, lr)
        _check("beta2_decay", beta2_decay, beta2_decay <= 0, "a number <= 0")
        _check("epsilon1", eps[0], eps[0] is None or eps[0] >= 0, "a number >= 0, or None")
        _check("epsilon2", eps[1], eps[1] >= 0, "a number >= 0")
        _check("clipping threshold d", d, d >= 1, "a number >= 1")
        _check("weight_decay value", weight_decay, weight_decay >= 0, "a number >= 0")
        super().__init__(params, {"lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d,
                                  "weight_decay": weight_decay, "foreach": foreach, "maximize": maximize})

    def _own_begin(self, param, state, group):
        if param.is_complex():
            raise RuntimeError(f"Adafactor: parameters must be real, got {param.dtype}")
        state["step"] = number(0)
        if param.dim() > 1:
            state["row_var"] = param.new_zeros((*param.shape[:-1], 1))
            state["col_var"] = param.new_zeros((*param.shape[:-2], 1, param.shape[-1]))
        else:
            state["variance"] = flambeau.zeros_like(param)

    def _update(self, param, grad, state, group, step):
        eps1, eps2 = group["eps"]
        if eps1 is None:
            eps1 = flambeau.finfo(param.dtype).eps
        share = step ** group["beta2_decay"]  # 1 - beta2
        rho = min(group["lr"], 1 / step**0.5)
        alpha = max(eps2, (param.norm(2) / param.numel() ** 0.5).item()) * rho
        if group["weight_decay"] != 0:
            param.mul_(1 - group["lr"] * group["weight_decay"])
        if grad.dim() > 1:
            rows, columns = state["row_var"], state["col_var"]
            rows.lerp_(grad.norm(dim=-1, keepdim=True).square_().div_(grad.size(-1)), share)
            columns.lerp_(grad.norm(dim=-2, keepdim=True).square_().div_(grad.size(-2)), share)
            variance = (rows @ columns).div_(rows.mean(dim=-2, keepdim=True).clamp_(min=eps1))
        else:
            state["variance"].lerp_(grad.square(), share)
            variance = state["variance"].clone()
        update = variance.clamp_(min=eps1 * eps1).rsqrt_().mul_(grad)
        size = max(1.0, (update.norm(2) / (update.numel() ** 0.5 * group["d"])).item())
        param.add_(update, alpha=-alpha / size)
