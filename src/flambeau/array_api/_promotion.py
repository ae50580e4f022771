"""Which dtype operands share by the standard: that of the arrays alone; a number takes the array's, and shapes play no
part, where PyTorch lets tensors with dimensions outweigh those without."""

import flambeau
from flambeau import Tensor


def result_type(*arrays_and_dtypes):
    """Takes any number of arrays, dtypes and numbers, where PyTorch's takes two, and a 0-d array counts in full.

    >>> from flambeau import array_api as xp
    >>> xp.result_type(xp.ones(3, dtype=xp.int8), xp.asarray(1, dtype=xp.int16), xp.uint8)
    torch.int16
    """
    numbers = [x for x in arrays_and_dtypes if not isinstance(x, Tensor | flambeau.dtype)]
    dtypes = [getattr(x, "dtype", x) for x in arrays_and_dtypes if isinstance(x, Tensor | flambeau.dtype)]
    if not dtypes:
        raise ValueError("result_type: expected an array or a dtype among the arguments, got numbers only")
    found = dtypes[0]
    for dtype in dtypes[1:]:
        found = flambeau.promote_types(found, dtype)
    for number in numbers:
        found = flambeau.result_type(flambeau.empty(1, dtype=found, device="meta"), number)
    return found


def in_common(*operands):
    """The operands as tensors of their common dtype; at least one of them is a tensor."""
    first = operands[0]
    if all(isinstance(x, Tensor) and x.dtype is first.dtype for x in operands):
        return operands
    arrays = [x for x in operands if isinstance(x, Tensor)]
    if not arrays:
        raise TypeError(f"expected at least one array, got {', '.join(type(x).__name__ for x in operands)}; "
                        "make one of a number with asarray")
    dtype = result_type(*operands)
    return [x.to(dtype) if isinstance(x, Tensor) else flambeau.tensor(x, dtype=dtype, device=arrays[0].device)
            for x in operands]
