"""Rprop: steps that know only the sign of the gradient."""

import flambeau

from ._composed import ComposedOptimizer, number, zeros
from ._lists import step_on_lists
from ._recorded import learned
from .optimizer import _check, _check_rate


class Rprop(ComposedOptimizer):
    """A step size per element, grown by eta+ while the sign of the gradient stays, shrunk by eta- when it changes.

    p <- p - sign(g) size; after a change of sign that element waits one step   (Riedmiller and Braun 1993).

    >>> import flambeau
    >>> w = flambeau.tensor([1.0], requires_grad=True)
    >>> opt = flambeau.optim.Rprop([w], lr=0.1)
    >>> w.sum().backward()
    >>> opt.step()
    >>> round(w.item(), 4)
    0.9
    """

    def __init__(self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, capturable=False, foreach=None,
                 maximize=False, differentiable=False):
        _check_rate(type(self).__name__, lr)
        _check("eta values", etas, 0.0 < etas[0] < 1.0 < etas[1], "0 < etas[0] < 1 < etas[1]")
        super().__init__(params, {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable})

    def _own_begin(self, param, state, group):
        state["step"] = number(0)
        state["prev"] = zeros(param)
        one = flambeau.full_like(param.detach(), 1 + 1j if param.is_complex() else 1,
                                 memory_format=flambeau.preserve_format)
        state["step_size"] = one * learned(group["lr"])

    def _update(self, param, grad, state, group, step):
        shrink, grow = group["etas"]
        least, most = group["step_sizes"]
        agreement = (grad * state["prev"]).detach()
        turned = agreement < 0
        factor = flambeau.ones_like(agreement).masked_fill_(agreement > 0, grow).masked_fill_(turned, shrink)
        state["step_size"].mul_(factor)
        state["step_size"].clamp_(least, most)
        grad = grad.masked_fill(turned, 0)
        param.addcmul_(grad.sign(), state["step_size"], value=-1)
        state["prev"].copy_(grad)


def rprop(params, grads, prevs, step_sizes, state_steps, foreach=None, capturable=False, maximize=False,
          differentiable=False, has_complex=False, *, step_size_min, step_size_max, etaminus, etaplus):
    """One step of Rprop for lists of parameters, gradients and what it keeps of them, which change in place."""
    states = {"step": state_steps, "prev": prevs, "step_size": step_sizes}
    options = {"etas": (etaminus, etaplus), "step_sizes": (step_size_min, step_size_max), "maximize": maximize,
               "foreach": foreach, "capturable": capturable, "differentiable": differentiable}
    step_on_lists(Rprop, params, grads, states, options)
