"""Optimizers as functions of lists: one step for parameters whose gradients and state the caller keeps."""


def step_on_lists(kind, params, grads, states, options, grad_scale=None, found_inf=None):
    """One step of the optimizer class `kind`: the parameters and the lists of `states` change in place.

    states: {name in the optimizer's state: its list, or None where these options need none}. `grad_scale` divides the
    gradients first; with a `found_inf` that is not zero nothing changes.
    """
    if not params or (found_inf is not None and bool(found_inf)):
        return
    optimizer = kind(params, **options)
    before = [param.grad for param in params]
    for k, (param, grad) in enumerate(zip(params, grads, strict=True)):
        param.grad = grad if grad_scale is None or grad is None else grad / grad_scale
        kept = {name: tensors[k] for name, tensors in states.items() if tensors}
        optimizer.state[param] = {name: value for name, value in kept.items() if value is not None}
    try:
        optimizer.step()
    finally:
        for param, grad in zip(params, before, strict=True):
            param.grad = grad
    for k, param in enumerate(params):
        for name, tensors in states.items():
            if tensors and tensors[k] is None:
                tensors[k] = optimizer.state[param].get(name)
