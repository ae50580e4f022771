"""`TorchDispatchMode` where programs import it from (`flambeau.overrides` has it under a public name), and its kin."""

import contextlib

from .. import _C
from .._tensor.overriding import TorchDispatchMode as TorchDispatchMode
from .._tensor.overriding import _modes, _Off, _update, dispatch_modes
from ..ops.kinds import writes_by_name

_get_current_dispatch_mode_stack = dispatch_modes


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


def transform_subclass(t, callback, outer_size=None, outer_stride=None):
    """A tensor of such a class, made of callback(name, tensor) of each tensor inside; with other sizes if given."""
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    return type(t).__tensor_unflatten__(inner, context, t.size() if outer_size is None else outer_size,
                                        t.stride() if outer_stride is None else outer_stride)


def return_and_correct_aliasing(func, args, kwargs, out):
    """What `__torch_dispatch__` of a wrapper returns: `out`, or the arguments that the operator has written into.

    >>> import flambeau
    >>> from flambeau.utils._python_dispatch import return_and_correct_aliasing
    >>> x = flambeau.ones(1)
    >>> return_and_correct_aliasing(flambeau.ops.aten.add_.Tensor, (x, 1), {}, flambeau.ones(1)) is x
    True
    """
    kwargs = kwargs or {}
    if isinstance(func, _C.Op):
        written = kwargs.get("out") if kwargs.get("out") is not None else args[0] if _is_inplace(func) else None
        return out if written is None else written
    schema = getattr(func, "_schema", None)
    if not getattr(schema, "is_mutable", False):
        return out
    given = dict(zip((a.name for a in schema.arguments), args, strict=False)) | kwargs
    places = {frozenset(a.alias_info.before_set): given.get(a.name) for a in schema.arguments if a.is_write}
    parts = [places.get(frozenset(r.alias_info.before_set)) if r.alias_info else None for r in schema.returns]
    if not isinstance(out, (tuple, list)):
        return parts[0] if parts and parts[0] is not None else out
    return type(out)(made if part is None else part for made, part in zip(out, parts, strict=True))


def _is_inplace(op):
    return op.is_inplace or writes_by_name(op.name)


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that changes nothing."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


# --- which modes there are --------------------------------------------------------------------------------------------

def _get_current_dispatch_mode():
    """The newest dispatch mode; None without any."""
    return _modes.dispatch[-1] if _modes.dispatch else None


def is_in_torch_dispatch_mode(include_infra_modes=True):
    """Whether there is one; include_infra_modes=False: one that is not of the library's own."""
    return any(include_infra_modes or not type(mode).__module__.startswith(("flambeau.", "torch."))
               for mode in _modes.dispatch)


@contextlib.contextmanager
def _disable_current_modes():
    """Context without the dispatch modes that there are; gives them, newest last."""
    before = _modes.dispatch[:]
    _modes.dispatch.clear()
    _update()
    try:
        yield before
    finally:
        _modes.dispatch[:] = before
        _update()


def any_torch_dispatch_mode_on_stack():
    """Whether there is a dispatch mode.

    >>> from flambeau.utils._python_dispatch import BaseTorchDispatchMode, any_torch_dispatch_mode_on_stack
    >>> with BaseTorchDispatchMode():
    ...     any_torch_dispatch_mode_on_stack()
    True
    """
    return bool(_modes.dispatch)


@contextlib.contextmanager
def _pop_mode_temporarily():
    """Context without the newest dispatch mode, which it gives."""
    with _Off(_modes.dispatch) as mode:
        yield mode
