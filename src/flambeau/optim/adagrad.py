"""Adagrad: steps divided by the root of the sum of all squares so far."""

import flambeau

from ._composed import decay
from ._lists import step_on_lists
from ._recorded import add_quotient, learned
from .optimizer import Optimizer, _check, _check_rate, _counts_to_tensors, _loss_of, sparse_like, step_count

_KEYS = ("step", "sum", None, None)


class Adagrad(Optimizer):
    """s <- s + g^2;  p <- p - lr / (1 + (t-1) lr_decay) g / (sqrt(s) + eps)   (Duchi, Hazan and Singer 2011).

    >>> import flambeau
    >>> w = flambeau.tensor([1.0], requires_grad=True)
    >>> opt = flambeau.optim.Adagrad([w], lr=0.1)
    >>> w.sum().backward()
    >>> opt.step()
    >>> round(w.item(), 4)
    0.9
    """

    def __init__(self, params, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10,
                 foreach=None, *, maximize=False, differentiable=False, fused=None):
        _check_rate(type(self).__name__, lr)
        _check("lr_decay value", lr_decay, lr_decay >= 0, "a number >= 0")
        _check("weight_decay value", weight_decay, weight_decay >= 0, "a number >= 0")
        _check("initial_accumulator_value value", initial_accumulator_value, initial_accumulator_value >= 0,
               "a number >= 0")
        _check("epsilon value", eps, eps >= 0, "a number >= 0")
        super().__init__(params, {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "fused": fused})
        for group in self.param_groups:  # this state exists before the first step
            for param in group["params"]:
                self._own_begin(param, self.state[param], group)

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name in ("maximize", "differentiable"):
                group.setdefault(name, False)
            group.setdefault("foreach", None)
            group.setdefault("fused", None)
        _counts_to_tensors(self)

    def share_memory(self):
        """Moves the sums of squares to where other processes can use them."""
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param]["sum"].share_memory_()

    def _own_begin(self, param, state, group):
        if "step" not in state:
            state["step"] = step_count(param, group)
        if "sum" not in state:
            start = group["initial_accumulator_value"]
            value = complex(start, start) if param.is_complex() else start
            state["sum"] = flambeau.full_like(param, value, memory_format=flambeau.preserve_format)

    def _own_check_sparse(self, group):
        if group["weight_decay"]:
            raise RuntimeError("Adagrad: weight_decay with sparse gradients is not supported: it would change every "
                               "row; use weight_decay=0, or layers with sparse=False")

    def _own_sparse_step(self, param, grad, state, group):
        """The same law in the rows that have a gradient."""
        self._own_begin(param, state, group)
        state["step"] += 1
        grad = -grad if group["maximize"] else grad
        rate = float(group["lr"]) / (1 + (state["step"].item() - 1) * group["lr_decay"])
        state["sum"].add_(grad * grad)
        root = state["sum"].sparse_mask(grad).values().sqrt() + group["eps"]
        param.add_(sparse_like(grad, grad.values() / root), alpha=-rate)

    def _update(self, param, grad, state, group, step):
        grad = decay(param, grad, group)
        state["sum"].addcmul_(grad, grad)
        rate = learned(group["lr"]) / (1 + (step - 1) * group["lr_decay"])
        add_quotient(param, grad, state["sum"].sqrt() + group["eps"], -rate)

    def step(self, closure=None):
        """One update; returns the closure's loss."""
        loss = _loss_of(closure) if closure is not None else None
        for group in self.param_groups:
            numbers = (group["lr"], group["weight_decay"], group["eps"], group["lr_decay"], 0.0)
            self._own_native_step(4, group, _KEYS, numbers, 1 if group["maximize"] else 0)
        return loss


def adagrad(params, grads, state_sums, state_steps, fused=None, grad_scale=None, found_inf=None, has_sparse_grad=False,
            foreach=None, differentiable=False, has_complex=False, *, lr, weight_decay, lr_decay, eps, maximize):
    """One step of Adagrad for lists of parameters, gradients and what it keeps of them, which change in place."""
    states = {"step": state_steps, "sum": state_sums}
    options = {"lr": lr, "lr_decay": lr_decay, "weight_decay": weight_decay, "eps": eps, "maximize": maximize,
               "foreach": foreach, "differentiable": differentiable, "fused": fused}
    step_on_lists(Adagrad, params, grads, states, options, grad_scale, found_inf)
