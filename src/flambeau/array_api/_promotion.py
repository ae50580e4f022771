"""Which dtype operands share by the standard: that of the arrays alone; a number takes the array's, and shapes play no
part, where PyTorch lets tensors with dimensions outweigh those without."""

import flambeau
from flambeau import Tensor


def _with_number(dtype, number):
    """The dtype of an array of `dtype` and a Python number: the array's, unless the number is of a higher kind."""
    if isinstance(number, bool) or dtype.is_complex:
        return dtype
    if isinstance(number, int):
        return flambeau.int64 if dtype is flambeau.bool else dtype
    if not isinstance(number, (float, complex)):
        raise TypeError(f"result_type: expected arrays, dtypes and numbers, got a {type(number).__name__}")
    real = dtype if dtype.is_floating_point else flambeau.get_default_dtype()
    return real if isinstance(number, float) else real.to_complex()


def result_type(*arrays_and_dtypes):
    """Takes any number of arrays, dtypes and numbers, where PyTorch's takes two, and a 0-d array counts in full.

    >>> from flambeau import array_api as xp
    >>> xp.result_type(xp.ones(3, dtype=xp.int8), xp.asarray(1, dtype=xp.int16), xp.uint8)
    torch.int16
    """
    found, numbers = None, []
    for x in arrays_and_dtypes:
        if isinstance(x, Tensor):
            x = x.dtype
        if not isinstance(x, flambeau.dtype):
            numbers.append(x)
        elif found is not x:
            found = x if found is None else flambeau.promote_types(found, x)
    if found is None:
        raise ValueError("result_type: expected an array or a dtype among the arguments, got numbers only")
    for number in numbers:
        found = _with_number(found, number)
    return found


def in_common(*operands):
    """The operands as tensors of their common dtype; at least one of them is a tensor."""
    arrays = [x for x in operands if isinstance(x, Tensor)]
    if len(arrays) == len(operands) == 2 and arrays[0].dtype is arrays[1].dtype:
        return operands
    if not arrays:
        raise TypeError(f"expected at least one array, got {', '.join(type(x).__name__ for x in operands)}; "
                        "make one of a number with asarray")
    dtype = result_type(*operands)
    return [(x if x.dtype is dtype else x.to(dtype)) if isinstance(x, Tensor) else
            flambeau.tensor(x, dtype=dtype, device=arrays[0].device) for x in operands]
