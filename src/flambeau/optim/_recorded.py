"""How a step is taken that autograd can differentiate: the law on copies, whose results are then written in place.

What the law saves for its derivatives are the copies, which nothing changes afterwards: so several steps in a row can
be differentiated, although parameters and state keep their places in memory.
"""

import flambeau


def real_view(t):
    """A complex tensor as pairs of real numbers over the same memory: every law acts on the parts alone."""
    return flambeau.view_as_real(t) if t.is_complex() else t


def learned(value):
    """An option as a float, or as it is where it is a tensor whose gradient this step must keep."""
    if isinstance(value, flambeau.Tensor) and value.requires_grad and flambeau.is_grad_enabled():
        return value
    return float(value)


def add_scaled(param, update, rate):
    """p <- p + rate * update, in place."""
    if isinstance(rate, flambeau.Tensor):
        param.add_(update * rate)
    else:
        param.add_(update, alpha=rate)


def add_quotient(param, top, bottom, rate):
    """p <- p + rate * top / bottom, in place."""
    if isinstance(rate, flambeau.Tensor):
        param.addcdiv_(top * rate, bottom)
    else:
        param.addcdiv_(top, bottom, value=rate)


def recorded_step(optimizer, group):
    """One update of a group with `differentiable=True`: parameters and state keep the history of how they came about.

    A parameter must not be a leaf that requires a gradient: such a tensor has no history to add to.
    """
    with flambeau.enable_grad():
        for param in group["params"]:
            if param.grad is not None:
                _record(optimizer, param, group)


def composed_step(optimizer, params, group):
    """One update by operators, in place: of parameters whose `__torch_dispatch__` computes, for want of memory, and of
    all where a dispatch mode is to see what is done."""
    with flambeau.no_grad():
        for param in params:
            if param.grad is not None:
                state, step, grad = _begun(optimizer, param, group)
                kept = {key: value for key, value in state.items()
                        if isinstance(value, flambeau.Tensor) and key != "step"}
                _obey(optimizer, param, grad, kept, group, step)


def _begun(optimizer, param, group):
    """(state, number of the step, gradient) of a parameter whose step begins."""
    if param.grad.layout is not flambeau.strided:
        raise RuntimeError(f"{type(optimizer).__name__}: differentiable=True needs dense gradients, got a sparse one")
    state = optimizer.state[param]
    fresh = not any(isinstance(value, flambeau.Tensor) for value in state.values())
    optimizer._own_prepare(param, state, group)
    if "step" in state:
        state["step"] += 1
    step = state["step"].item() if "step" in state else 0 if fresh else 1
    return state, step, -param.grad if group["maximize"] else param.grad


def _obey(optimizer, param, grad, kept, group, step):
    views = {key: real_view(value) for key, value in kept.items()}
    optimizer._update(real_view(param), real_view(grad), views, group, step)


def _record(optimizer, param, group):
    state, step, grad = _begun(optimizer, param, group)
    own = param.clone()
    kept = {key: value.clone() for key, value in state.items()
            if isinstance(value, flambeau.Tensor) and key != "step"}
    _obey(optimizer, own, grad, kept, group, step)
    param.copy_(own)
    for key, value in kept.items():
        state[key].copy_(value)
