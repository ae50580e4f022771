"""Functions with a leading underscore in PyTorch's top level that packages of models call all the same."""

from .. import _C
from .._shown import shown
from .creation import tensor


def _fail(error, cond, message):
    """Raises `error` with `message()` unless `cond` holds."""
    if isinstance(cond, _C.Tensor):
        raise TypeError(f"_check: cond must be a bool, got a tensor of shape {list(cond.shape)}; _check_tensor_all "
                        "asks whether all elements are true")
    if type(cond).__name__ == "SymBool":  # of sizes inside a trace: decided, or taken for true and kept
        cond = cond.node.shape_env.assume(cond.node.expr, cond.node)
    if not isinstance(cond, bool):
        raise TypeError(f"_check: cond must be a bool, got {shown(cond)}")
    if message is not None and not callable(message):
        raise TypeError(f"_check: message must be a function that returns the text, got {shown(message)}")
    if not cond:
        raise error("_check: the condition does not hold" if message is None else str(message()))


def _check(cond, message=None):
    """RuntimeError with the text of `message()` unless `cond` is True.

    >>> import flambeau
    >>> flambeau._check(1 < 2, lambda: "one is less than two")
    """
    _fail(RuntimeError, cond, message)


def _check_index(cond, message=None):
    """`_check` with an IndexError."""
    _fail(IndexError, cond, message)


def _check_value(cond, message=None):
    """`_check` with a ValueError."""
    _fail(ValueError, cond, message)


def _check_type(cond, message=None):
    """`_check` with a TypeError."""
    _fail(TypeError, cond, message)


def _check_not_implemented(cond, message=None):
    """`_check` with a NotImplementedError."""
    _fail(NotImplementedError, cond, message)


def _check_with(error_type, cond, message=None):
    """`_check` with an error of that type."""
    _fail(error_type, cond, message)


def _check_is_size(i, message=None, *, max=None):
    """RuntimeError unless the number is a size: not negative, and at most `max`."""
    _fail(RuntimeError, _bool(i >= 0), message)
    _fail(RuntimeError, max is None or _bool(i <= max), message)


def _bool(cond):
    return bool(cond) if isinstance(cond, (int, _C.Tensor)) else cond


def _check_tensor_all_with(error_type, cond, message=None):
    """An error of that type unless every element of a tensor of bools is True."""
    if not isinstance(cond, _C.Tensor) or cond.dtype is not _C.bool:
        raise TypeError(f"_check_tensor_all: cond must be a tensor of dtype bool, got {shown(cond)}")
    _fail(error_type, bool(cond.all()), message)


def _check_tensor_all(cond, message=None):
    """RuntimeError with the text of `message()` unless every element of a tensor of bools is True."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _assert_async(input, assert_msg="the tensor is zero"):
    """RuntimeError if the tensor's only element is zero: at once, since the CPU has no pending work."""
    if not bool(input):
        raise RuntimeError(f"_assert_async: {assert_msg}")


def _shape_as_tensor(input):
    """The shape as a tensor of int64."""
    return tensor(input.shape, dtype=_C.int64)


def _softmax_backward_data(grad_output, output, dim, input_dtype):
    """The gradient of softmax's input, from the gradient of its output and the output itself."""
    weighted = grad_output * output
    return (weighted - output * weighted.sum(dim, keepdim=True)).to(input_dtype)


def _log_softmax_backward_data(grad_output, output, dim, input_dtype):
    """The gradient of log_softmax's input, from the gradient of its output and the output itself."""
    return (grad_output - output.exp() * grad_output.sum(dim, keepdim=True)).to(input_dtype)


def _has_compatible_shallow_copy_type(input, from_):
    """Whether `input.data = from_` can be said of these tensors: of one kind of device and one layout."""
    return input.device.type == from_.device.type and input.layout is from_.layout
