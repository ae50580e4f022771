"""The table of rules: what each operator does with quantized tensors. An operator without a rule is refused by name."""

from .._C import Tensor
from .._tensor.wrapped import Rules
from .tensor import QuantizedTensor, is_quantized

RULES = Rules("quantized")
rule = RULES.rule


def refuse(name, why="", kind=NotImplementedError):
    """Says that an operator has no rule for quantized tensors, and what to do."""
    raise kind(f"{name}: not available for quantized tensors{why}; compute with x.dequantize()")


def call(func, args, kwargs, below=False):
    """`func(*args, **kwargs)` with a quantized tensor among the arguments. below: autograd records this call itself."""
    name = getattr(func, "name", None) or func.__name__
    found = RULES.get(name)
    if found is not None and "out" not in kwargs:
        return found(*args, **kwargs)
    if getattr(func, "is_inplace", False) and name.removesuffix("_") in RULES:
        return write(args[0], RULES[name.removesuffix("_")](*args, **kwargs), name)
    if getattr(func, "kind", None) == "composite" and not below and "out" not in kwargs:
        return func.body(*args, **kwargs)
    return refuse(name, " as out=" if "out" in kwargs else "")


def write(to, result, name):
    """`result` as the new contents of `to` (in-place forms): the codes of what its scale makes of it."""
    if not is_quantized(to):
        refuse(name, " into a tensor of another kind", RuntimeError)
    if isinstance(result, Tensor) and result.shape != to.shape:
        raise RuntimeError(f"{name}: the result has shape {list(result.shape)} but self {list(to.shape)}")
    return to.copy_(result)


QuantizedTensor._run = staticmethod(call)
