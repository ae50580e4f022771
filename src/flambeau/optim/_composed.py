"""What the optimizers written as tensor operations share: one pass over the parameters that have a gradient."""

import flambeau

from ._recorded import learned, real_view, recorded_step
from ._spread import gradient
from .optimizer import Optimizer, _counts_to_tensors, _loss_of


class ComposedOptimizer(Optimizer):
    """Calls `_update(param, grad, state, group)`, all plain real tensors, for each parameter."""

    _group_defaults = {"maximize": False, "foreach": None, "capturable": False, "differentiable": False}

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self._group_defaults.items():
                group.setdefault(name, value)
        _counts_to_tensors(self)

    def step(self, closure=None):
        """One update; returns the closure's loss."""
        loss = _loss_of(closure) if closure is not None else None
        with flambeau.no_grad():
            for group in self.param_groups:
                if group.get("differentiable"):
                    recorded_step(self, group)
                    continue
                for param in group["params"]:
                    if param.grad is not None:
                        self._step_one(param, group)
        return loss

    def _step_one(self, param, group):
        if param.grad.layout is not flambeau.strided:
            self._own_check_sparse(group)
        state = self.state[param]
        self._own_prepare(param, state, group)
        state["step"] += 1
        grad = gradient(param)
        grad = -grad if group["maximize"] else grad
        views = {key: real_view(value) for key, value in state.items()}
        self._update(real_view(param), real_view(grad), views, group, state["step"].item())

    def _own_prepare(self, param, state, group):
        if not state:
            self._own_begin(param, state, group)

    def _update(self, param, grad, state, group, step):
        raise NotImplementedError


def zeros(param):
    """A state tensor laid out like the parameter."""
    return flambeau.zeros_like(param, memory_format=flambeau.preserve_format)


def number(value):
    """A state that is one float32 number."""
    return flambeau.tensor(float(value), dtype=flambeau.float32)


def decay(param, grad, group):
    """The gradient with weight decay: added to it, or taken from the parameter where the group decouples it."""
    amount = group["weight_decay"]
    if amount == 0:
        return grad
    if group.get("decoupled_weight_decay"):
        param.mul_(1 - learned(group["lr"]) * learned(amount))
        return grad
    amount = learned(amount)
    return grad + param.clone() * amount if isinstance(amount, flambeau.Tensor) else grad.add(param, alpha=amount)
