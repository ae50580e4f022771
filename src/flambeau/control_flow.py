"""Control flow as functions: `cond` and `while_loop` decide when they run, on values that are known then."""


def _truth(pred):
    if hasattr(pred, "numel"):
        if pred.numel() != 1:
            raise RuntimeError(f"cond: pred must hold one element, got shape {list(pred.shape)}")
        return bool(pred)
    if not isinstance(pred, (bool, int, float)):
        raise RuntimeError(f"cond: pred must be a bool or a Tensor, got {type(pred).__name__}")
    return bool(pred)


def cond(pred, true_fn, false_fn, operands=()):
    """true_fn(*operands) if pred else false_fn(*operands), decided when it runs.

    >>> import flambeau
    >>> flambeau.cond(True, lambda x: x + 1, lambda x: x - 1, (flambeau.zeros(1),))
    tensor([1.])
    """
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError(f"cond: true_fn and false_fn must be functions, got {type(true_fn).__name__} and "
                           f"{type(false_fn).__name__}")
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(f"cond: operands must be a tuple or a list, got {type(operands).__name__}")
    return (true_fn if _truth(pred) else false_fn)(*operands)


def while_loop(cond_fn, body_fn, carried_inputs):
    """Runs `carried = body_fn(*carried)` while `cond_fn(*carried)` holds.

    >>> import flambeau
    >>> flambeau.while_loop(lambda i: i < 3, lambda i: (i + 1,), (flambeau.tensor(0),))
    (tensor(3),)
    """
    carried = tuple(carried_inputs)
    while _truth(cond_fn(*carried)):
        result = body_fn(*carried)
        result = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        if len(result) != len(carried):
            raise RuntimeError(f"while_loop: body_fn must return as many values as are carried, {len(carried)}, got "
                               f"{len(result)}")
        carried = result
    return carried
