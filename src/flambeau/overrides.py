"""`__torch_function__` from outside: which functions it sees, and how a function of one's own asks for it.

How an operator call is taken over is decided in `_tensor/overriding.py`.
"""

import functools
from types import FunctionType

import flambeau

from . import _C
from ._tensor.overriding import TorchDispatchMode as TorchDispatchMode
from ._tensor.overriding import TorchFunctionMode as TorchFunctionMode
from ._tensor.overriding import asked, function_modes, overriding, passing_once
from ._tensor.overriding import disable_torch_dispatch as disable_torch_dispatch
from ._tensor.overriding import disable_torch_function as disable_torch_function
from ._tensor.overriding import enable_reentrant_dispatch as enable_reentrant_dispatch
from ._tensor.overriding import has_torch_function as has_torch_function
from ._tensor.overriding import has_torch_function_unary as has_torch_function_unary
from ._tensor.overriding import has_torch_function_variadic as has_torch_function_variadic
from ._tensor.overriding import is_tensor_like as is_tensor_like


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def get_default_nowrap_functions():
    """Functions whose results keep their own class when `__torch_function__` is the one that all tensors have."""
    return {getattr(_C.Tensor, name).__get__ for name in ("_base", "grad")}


def _get_current_function_mode():
    """The newest function mode, or None."""
    return next(reversed(function_modes()), None)


def _get_current_function_mode_stack():
    """The function modes that this thread is in, newest last."""
    return function_modes()


def wrap_torch_function(dispatcher):
    """Decorator: calls with arguments that override `__torch_function__` go there; `dispatcher(*args, **kwargs)` says
    which arguments count."""
    def decorate(func):
        @functools.wraps(func)
        def wrapped(*args, **kwargs):
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return decorate


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """The answer of the mode or of the first of `relevant_args` that gives one to `public_api(*args, **kwargs)`."""
    def otherwise(types):
        raise TypeError(f"{resolve_name(public_api) or public_api}: __torch_function__ of "
                        f"{', '.join(t.__name__ for t in types)} returned NotImplemented for this call")

    return asked(public_api, overriding(tuple(relevant_args), {}, "__torch_function__"), args, kwargs, otherwise)


def redispatch_function(func, types, args, kwargs):
    """`func(*args, **kwargs)` itself, from within a `__torch_function__` that was asked about it.

    Operators that a Python function calls are asked about again; an operator treats the arguments as plain tensors.
    """
    with passing_once() if isinstance(func, FunctionType) else disable_torch_function():
        return func(*args, **(kwargs or {}))


# --- what can be overridden -------------------------------------------------------------------------------------------

def _spaces():
    for name, space in (("torch", flambeau), ("torch.nn.functional", flambeau.nn.functional),
                        ("torch.linalg", flambeau.linalg), ("torch.special", flambeau.special),
                        ("torch.fft", flambeau.fft)):
        yield name, space, {key: op for key, op in vars(space).items() if isinstance(op, _C.Op)}
    methods = {name: getattr(_C.Tensor, name) for name in dir(_C.Tensor)
               if callable(getattr(_C.Tensor, name, None)) and name not in dir(object)}
    yield "torch.Tensor", _C.Tensor, methods


def get_overridable_functions():
    """{module or class: its functions that `__torch_function__` sees}.

    >>> import flambeau
    >>> flambeau.add in flambeau.overrides.get_overridable_functions()[flambeau]
    True
    """
    return _BySpace({space: list(functions.values()) for _, space, functions in _spaces()})


class _BySpace(dict):
    """Modules are found under each name that they are imported by; of others nothing is known."""

    def __missing__(self, space):
        name = getattr(space, "__name__", "").replace("torch", "flambeau", 1)
        return next((found for known, found in self.items() if getattr(known, "__name__", None) == name), [])


def get_ignored_functions():
    """Public functions that `__torch_function__` does not see: those that take no tensor, or make new ones."""
    return {found for name in dir(flambeau) if not name.startswith("_") and callable(found := getattr(flambeau, name))
            and not isinstance(found, (_C.Op, type))}


def get_testing_overrides():
    """{overridable function: a function of the same arguments that answers -1}, for tests of overriding."""
    def answer(*args, **kwargs):
        return -1

    return {f: answer for functions in get_overridable_functions().values() for f in functions}


def resolve_name(f):
    """The public name of an overridable function, as 'torch.add'; None for anything else."""
    for space, _, functions in _spaces():
        for name, found in functions.items():
            if found is f:
                return f"{space}.{name}"
    return None


def is_tensor_method_or_property(func):
    """Whether `func` is a method of Tensor, or the getter of a property."""
    if getattr(func, "__name__", None) == "__get__":
        return True
    return any(func is found for found in (getattr(_C.Tensor, name, None) for name in dir(_C.Tensor)))
