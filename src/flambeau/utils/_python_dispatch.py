"""`TorchDispatchMode` where programs import it from (`flambeau.overrides` has it under a public name), and its kin."""

from .. import _C
from .._tensor.overriding import TorchDispatchMode as TorchDispatchMode
from .._tensor.overriding import dispatch_modes as _get_current_dispatch_mode_stack


def _get_current_dispatch_mode():
    """The newest dispatch mode, or None."""
    return next(reversed(_get_current_dispatch_mode_stack()), None)


def is_traceable_wrapper_subclass_type(t):
    """Whether a class is a tensor's that can be taken apart into tensors: it has `__tensor_flatten__` and back.

    >>> import flambeau
    >>> from flambeau.utils._python_dispatch import is_traceable_wrapper_subclass_type
    >>> is_traceable_wrapper_subclass_type(flambeau.nn.Parameter)
    False
    """
    return (isinstance(t, type) and issubclass(t, _C.Tensor) and t is not _C.Tensor
            and hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__"))


def is_traceable_wrapper_subclass(t):
    """Whether an object is of such a class.

    >>> import flambeau
    >>> from flambeau.utils._python_dispatch import is_traceable_wrapper_subclass
    >>> class Scaled(flambeau.Tensor):
    ...     def __tensor_flatten__(self):
    ...         return ["value"], None
    ...     @staticmethod
    ...     def __tensor_unflatten__(inner, context, size, stride):
    ...         return inner["value"].as_subclass(Scaled)
    >>> is_traceable_wrapper_subclass(flambeau.ones(1).as_subclass(Scaled))
    True
    """
    return is_traceable_wrapper_subclass_type(type(t))
