"""A mode in which Python's operators on tensors follow the standard as well, instead of PyTorch's rules."""

from flambeau import Tensor
from flambeau import bool as _bool
from flambeau.overrides import TorchFunctionMode

from . import _elementwise
from .linalg import matmul

#: operator -> the standard's function
STANDARD = {operator: vars(_elementwise)[name] for name, operator in _elementwise.OF_TWO.items()}
STANDARD |= {"floor_divide": _elementwise.floor_divide, "remainder": _elementwise.remainder, "matmul": matmul}


def _masks_nothing(x, key):
    """Whether `key` is a mask whose sides are those of `x`, or 0 where these are not; PyTorch refuses such a mask."""
    return (isinstance(key, Tensor) and key.dtype is _bool and 0 in key.shape and key.ndim <= x.ndim
            and all(side in (0, whole) for side, whole in zip(key.shape, x.shape)))


class standard_operators(TorchFunctionMode):
    """Inside `with standard_operators():`, `x + y`, `x // y`, `x < y` … follow the standard as its functions do.

    Outside, they follow PyTorch: a 0-d tensor does not widen one with dimensions, and `//` with infinity is NaN.

    >>> import flambeau
    >>> x, y = flambeau.ones(2, dtype=flambeau.int8), flambeau.tensor(1)
    >>> with flambeau.array_api.standard_operators():
    ...     print((x + y).dtype, (x + 1).dtype)
    torch.int64 torch.int8
    >>> (x + y).dtype
    torch.int8
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is Tensor.__getitem__ and _masks_nothing(*args):
            return args[0].new_empty((0, *args[0].shape[args[1].ndim:]))
        name = getattr(func, "name", "")
        function = STANDARD.get(name.removesuffix("_"))
        if function is None or kwargs or len(args) != 2 or types:
            return func(*args, **(kwargs or {}))
        return args[0].copy_(function(*args)) if name.endswith("_") else function(*args)
