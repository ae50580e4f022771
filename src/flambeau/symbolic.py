"""Numbers that stand for sizes: shapes are always known here, so symbols are plain numbers with PyTorch's names."""

import math


class _Symbol:
    """Base of the symbol types, for isinstance: no value here is one, since every shape is known when a call runs."""

    def __init__(self, node):
        raise NotImplementedError(f"{type(self).__name__}: sizes are numbers here, never unknown")


class SymInt(_Symbol):
    """A symbolic int: never met here."""


class SymFloat(_Symbol):
    """A symbolic float: never met here."""


class SymBool(_Symbol):
    """A symbolic bool: never met here."""


def sym_int(a):
    """The number cut towards zero, as an int.

    >>> import flambeau
    >>> flambeau.sym_int(-3.7), flambeau.sym_float(3), flambeau.sym_max(2, 3.0)
    (-3, 3.0, 3.0)
    """
    return math.trunc(a)


def sym_float(a):
    """The number as a float."""
    return float(a)


def sym_not(a):
    """Not a."""
    return not a


def _common(a, b):
    return (float(a), float(b)) if isinstance(a, float) or isinstance(b, float) else (a, b)


def sym_max(a, b):
    """The larger; a float where either is one."""
    return max(*_common(a, b))


def sym_min(a, b):
    """The smaller; a float where either is one."""
    return min(*_common(a, b))


def sym_ite(b, t, f):
    """t if b else f, of one type."""
    if not isinstance(b, bool):
        raise AssertionError(f"expected SymBool or bool, got {type(b)}")
    if type(t) is not type(f):
        raise AssertionError(f"sym_ite: both values must be of one type, got {type(t)} and {type(f)}")
    return t if b else f


def sym_sum(args):
    """The sum."""
    return sum(args)


def sym_sqrt(a):
    """The square root."""
    return math.sqrt(a)


def sym_fresh_size(expr):
    """Not available: sizes are numbers here."""
    raise NotImplementedError("sym_fresh_size: sizes are numbers here; there is no tracing with unknown sizes")


# --- control flow -----------------------------------------------------------------------------------------------

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


