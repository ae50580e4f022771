"""The table of rules: what each operator does with masked tensors. An operator without a rule is refused by name."""

from ... import _C
from ..._tensor.dtypes import can_cast
from ..._tensor.wrapped import Rules
from .core import MaskedTensor, is_masked_tensor, is_sparse, same_mask

RULES = Rules("masked")
rule = RULES.rule


def refuse(name, why=""):
    """Says that an operator has no rule for masked tensors, and what to do."""
    raise TypeError(f"{name}: not available for masked tensors{why}; compute with x.get_data() and x.get_mask(), or "
                    "with x.to_tensor(value)")


def call(func, args, kwargs, below=False):
    """`func(*args, **kwargs)` with a masked tensor among the arguments. below: autograd records this call itself."""
    name = getattr(func, "name", None) or func.__name__
    found = RULES.get(name)
    if found is not None and kwargs.get("out") is None:
        kwargs.pop("out", None)
        return found(*args, **kwargs)
    if getattr(func, "is_inplace", False) and name.removesuffix("_") in RULES:
        return write(args[0], RULES[name.removesuffix("_")](*args, **kwargs), name)
    if getattr(func, "kind", None) == "composite" and not below and kwargs.get("out") is None:
        return func.body(*args, **kwargs)
    return refuse(name, " as out=" if kwargs.get("out") is not None else "")


def write(to, result, name):
    """`result` as the new values of `to` (in-place forms); the mask stays."""
    if not is_masked_tensor(to):
        raise TypeError(f"{name}: a plain tensor cannot take the values of a masked one, since it has no mask; use the "
                        "out-of-place form")
    if result.shape != to.shape or not same_mask(to._masked_mask, result._masked_mask):
        raise ValueError(f"{name}: the result has another shape or mask than self, which keeps its own; use the "
                         "out-of-place form")
    if result.dtype is not to.dtype and not can_cast(result.dtype, to.dtype):
        raise RuntimeError(f"{name}: the result is {result.dtype}, which a tensor of {to.dtype} cannot hold")
    if _C.is_grad_enabled() and to.requires_grad and to.is_leaf:
        raise RuntimeError(f"{name}: this tensor is a leaf that requires grad, and a change in place would lose its "
                           "value for the gradient. Write inside `with flambeau.no_grad():`, or use the out-of-place "
                           "form")
    data = result._masked_data.to(to.dtype)
    if is_sparse(data):
        to._masked_data = data
    else:
        to._masked_data.copy_(data)
    to._bump_version()
    if result.requires_grad and result.grad_fn is not None:
        _C.set_history(to, result.grad_fn, result.output_nr)
    return to


MaskedTensor._run = staticmethod(call)
