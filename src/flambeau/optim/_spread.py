"""Steps on parameters that are spread over processes: each process updates the part that it has."""

import flambeau

from .. import _C


def is_spread(t):
    """Whether a tensor says how its part is reached (`_own_part`, `_own_like`), as DTensor does."""
    return isinstance(t, flambeau.Tensor) and hasattr(type(t), "_own_part")


def gradient(param):
    """The gradient, spread as its parameter is."""
    grad = param.grad
    return grad._own_like(param) if is_spread(grad) else grad


def step_on_parts(optimizer, kind, group, params, keys, numbers, flags):
    """One native update of the local parts of the parameters that have a gradient."""
    parts, states, fresh = [], {}, []
    for param in params:
        if param.grad is None:
            continue
        state = optimizer.state[param]
        new = any(key is not None and state.get(key) is None for key in keys)
        if new:
            optimizer._own_begin(param, state, group)
        part = param._own_part()
        part.grad = gradient(param)._own_part()
        states[part] = {key: _part(param, state, key) for key in keys if key is not None and key in state}
        parts.append(part)
        if new:
            fresh.append(part)
    if parts:
        _C.optim_step(kind, parts, states, keys, numbers, flags, fresh)
        for part in parts:
            part.grad = None


def _part(param, state, key):
    """This process's part of a state tensor, which is first spread as the parameter is."""
    value = state[key]
    if is_spread(value):
        state[key] = value = value._own_like(param)
        return value._own_part()
    if value.shape == param.shape and value.ndim:
        state[key] = value = param._own_spread(value)
        return value._own_part()
    return value
