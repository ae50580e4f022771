"""Where Python takes over an operator call: `__torch_function__`, `__torch_dispatch__`, and their modes.

Native code asks here only when a mode is active or an argument's type overrides operators; other calls never pass.
"""

import contextlib
import functools
import threading
import warnings

from .. import _C
from .._shown import shown
from .dispatched import in_form, in_parts, reads_primitives
from .wrapped import Wrapped


class _Modes(threading.local):
    """The modes that this thread is in, newest last."""

    def __init__(self):
        self.function, self.dispatch = [], []
        self.passed = False  #: whether the next question about overrides is answered with no
        self.around = []  #: whether gradients are recorded around each `__torch_dispatch__` that runs
        self.plain = 0  #: contexts in which subclasses are plain tensors, while modes are asked all the same


_modes = _Modes()


def _update():
    _C.set_modes(len(_modes.function), len(_modes.dispatch))


class _Off:
    """While inside: without the newest mode of `stack` (a mode's own calls go to the mode outside it)."""

    def __init__(self, stack):
        self.stack = stack

    def __enter__(self):
        self.mode = self.stack.pop()
        _update()
        return self.mode

    def __exit__(self, *_):
        self.stack.append(self.mode)
        _update()


class _Mode:
    def __enter__(self):
        if isinstance(vars(type(self)).get(self._protocol), classmethod):
            raise RuntimeError(f"{type(self).__name__}.{self._protocol} is a classmethod, and would not know its mode; "
                               "make it a plain method")
        getattr(_modes, self._kind).append(self)
        _update()
        return self

    def __exit__(self, *_):
        stack = getattr(_modes, self._kind)
        if not stack or stack[-1] is not self:
            raise RuntimeError(f"{type(self).__name__}: modes must be left in the reverse order of entering, in the "
                               "thread that entered them")
        stack.pop()
        _update()


def below_all_modes(mode, active=True):
    """Makes a mode the outermost of this thread, without entering it; active=False: takes it away again."""
    stack = getattr(_modes, mode._kind)
    if active:
        stack.insert(0, mode)
    else:
        stack.remove(mode)
    _update()


class TorchFunctionMode(_Mode):
    """Inside `with mode:` every public operator call goes to `mode.__torch_function__(func, types, args, kwargs)`.

    >>> import flambeau
    >>> class Count(flambeau.overrides.TorchFunctionMode):
    ...     calls = 0
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         self.calls += 1
    ...         return func(*args, **(kwargs or {}))
    >>> with Count() as count:
    ...     _ = flambeau.ones(2) + 1
    >>> count.calls
    2
    """

    _kind, _protocol = "function", "__torch_function__"

    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError(f"{type(self).__name__} must define __torch_function__")


class TorchDispatchMode(_Mode):
    """Inside `with mode:` primitives, below autograd, go to `mode.__torch_dispatch__(func, types, args, kwargs)`."""

    _kind, _protocol = "dispatch", "__torch_dispatch__"

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError(f"{type(self).__name__}: a TorchDispatchMode needs a method __torch_dispatch__")


def overriding(args, kwargs, name):
    """Arguments whose type defines `name`, subclasses before their bases, otherwise in call order."""
    found = []
    if _modes.plain and name == "__torch_function__":
        return found

    def look(x):
        kind = type(x)
        if kind is slice:
            return [look(part) for part in (x.start, x.stop, x.step)]
        method = getattr(kind, name, None)
        if method is None or method is _C._disabled_torch_function_impl or kind is _C.Tensor:
            return None
        if getattr(method, "__func__", None) is _default_torch_dispatch:
            return None
        if any(type(y) is kind for y in found):
            return None
        at = next((k for k, y in enumerate(found) if issubclass(kind, type(y))), len(found))
        return found.insert(at, x)

    for x in (*args, *kwargs.values()):
        if isinstance(x, (tuple, list)):
            for y in x:
                look(y)
        else:
            look(x)
    return found


_makers = {}  # {layout: what makes the results of operators that are asked for it}


def makes(*layouts):
    """Decorator: operators called with one of these `layout=` are answered by function(func, args, kwargs)."""
    def register(function):
        _makers.update(dict.fromkeys(layouts, function))
        return function

    return register


def handle_torch_function(func, args, kwargs):
    """The override's answer to `func(*args, **kwargs)`; the plain call where no override is left."""
    if args and isinstance(args[0], Wrapped) and not _modes.function and not _modes.plain:
        return args[0]._run(func, args, kwargs)  # what the general way below comes to, found at once

    def otherwise(types):
        layout = kwargs.get("layout")
        if not types and isinstance(layout, _C.memory_format) and layout in _makers:
            return _makers[layout](func, args, kwargs)
        if not types:
            with disable_torch_function():
                return func(*args, **kwargs)
        _declined(func, types)

    return asked(func, overriding(args, kwargs, "__torch_function__"), args, kwargs, otherwise)


def of_overrides(method):
    """Decorator: a method of tensors that is no operator asks the newest function mode, or their class, first."""
    @functools.wraps(method)
    def asking(self, *args, **kwargs):
        if (_modes.function or type(self) is not _C.Tensor) and overrides(self):
            return ask(asking, self, args, kwargs)
        return method(self, *args, **kwargs)

    return asking


def overrides(self):
    """Whether a function mode, or the class of a tensor, is to be asked about its methods."""
    return not isinstance(self, Wrapped) and has_torch_function((self,))


def ask(method, self, args, kwargs):
    """The answer to a method of a tensor where there is one to be asked."""
    found = overriding((self, *args), {}, "__torch_function__")
    return asked(method, found, (self, *args), kwargs, functools.partial(_declined, method))


def of_likes(function):
    """Decorator: a function of a tensor asks the newest function mode, or the class of what it is given, first."""
    @functools.wraps(function)
    def asking(input, *args, **kwargs):
        if (_modes.function or _overrides(type(input))) and has_torch_function((input,)):
            return ask(asking, input, args, kwargs)
        return function(input, *args, **kwargs)

    return asking


def overrides_are_off():
    """Whether classes are not asked here, as inside their own `__torch_function__`."""
    off = _C.disable_overrides(True)
    _C.disable_overrides(off)
    return off


def _overrides(kind):
    """Whether a class has a `__torch_function__` that is not the one of all tensors."""
    method = getattr(kind, "__torch_function__", None)
    return method is not None and getattr(method, "__func__", method) not in (
        _default_torch_function, _C._disabled_torch_function_impl) and not issubclass(kind, Wrapped)


def _declined(func, types):
    raise TypeError(f"{func.__name__}: __torch_function__ of {', '.join(t.__name__ for t in types)} returned "
                    "NotImplemented for this call")


def of_modes(make):
    """Decorator: a function that makes tensors of Python's data is asked of the newest function mode first."""
    @functools.wraps(make)
    def made(*args, **kwargs):
        if _modes.function and has_torch_function(()):
            return asked(made, (), args, kwargs, None)
        return make(*args, **kwargs)

    return made


def asked(func, found, args, kwargs, otherwise):
    """The answer of the newest function mode, else of the first of `found` that has one, else otherwise(types)."""
    types = tuple(type(x) for x in found)
    result = _answer("__torch_function__", _modes.function, func, types, found, args, kwargs)
    return otherwise(types) if result is NotImplemented else result


def _answer(protocol, modes, func, types, found, args, kwargs):
    """Of the innermost mode, or of the first of `found` that does not decline; NotImplemented where all decline."""
    if modes:
        with _Off(modes) as mode:
            method = _ruled(func, type(mode), mode) or getattr(mode, protocol)
            result = _asked(method, protocol, func, types, args, kwargs)
        if result is not NotImplemented:
            return result
        if not found:
            raise TypeError(f"{protocol} of the mode {type(mode).__name__} returned NotImplemented for "
                            f"{shown(getattr(func, 'name', func))}, and no argument has an answer; "
                            "return func(*args, **kwargs) for what the mode leaves alone")
    for x in found:
        method = _ruled(func, type(x), type(x)) or _method(x, protocol)
        result = _asked(method, protocol, func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    return NotImplemented


def _ruled(func, kind, first):
    """What a library's operator has registered for a class of modes or tensors; None without it."""
    rules = getattr(func, "dispatch_rules", None)
    found = rules and next((rules[k] for k in kind.__mro__ if k in rules), None)
    return functools.partial(found, first) if found else None


def _method(x, protocol):
    """The class's method; bound to x where the class has a plain one, which PyTorch's programs may still have."""
    method = getattr(x, protocol)
    if getattr(method, "__self__", None) is x:
        warnings.warn(f"{type(x).__name__}.{protocol} is a plain method; make it a classmethod, which gets the types "
                      "of the arguments", DeprecationWarning, stacklevel=4)
        return method
    return getattr(type(x), protocol)


def _asked(method, protocol, func, types, args, kwargs):
    """Below autograd, a method of a program's class is called with PyTorch's operator in the place of a primitive."""
    if protocol == "__torch_function__" or reads_primitives(method):
        return method(func, types, args, kwargs)
    func, args, kwargs, of_answer = in_form(func, args, kwargs)
    result = method(func, types, args, kwargs)
    return result if of_answer is None or result is NotImplemented else of_answer(result)


def handle_torch_dispatch(func, args, kwargs):
    """The answer of the innermost dispatch mode, or of the tensor subclasses among the arguments."""
    found = overriding(args, kwargs, "__torch_dispatch__")
    types = tuple(type(x) for x in found)
    _modes.around.append(_C.set_grad_enabled(False))
    try:
        result = _composed(found, func, args, kwargs)
        if result is NotImplemented:
            result = _answer("__torch_dispatch__", _modes.dispatch, func, types, found, args, kwargs)
    finally:
        _C.set_grad_enabled(_modes.around.pop())
    if result is NotImplemented:
        raise TypeError(f"{shown(func.name)}: nobody computes it, since every __torch_dispatch__ "
                        "returned NotImplemented")
    return result


def _composed(found, func, args, kwargs):
    """What parts of the call make of it, where a program's class is asked first and PyTorch has those parts alone."""
    first = _modes.dispatch[-1] if _modes.dispatch else found[0]
    if reads_primitives(first.__torch_dispatch__):
        return NotImplemented
    with disable_torch_function():
        return in_parts(func, args, kwargs)


def dispatches(tensors):
    """Whether a dispatch mode, or the type of one of the tensors, would take over a primitive on them."""
    if _C.disable_dispatch(False):  # asked with dispatch off: it stays off
        _C.disable_dispatch(True)
        return False
    return bool(_modes.dispatch or overriding(tuple(tensors), {}, "__torch_dispatch__"))


def _local_scalar_dense(self):
    """What `__torch_dispatch__` is asked for item(), bool() and their kind; the answer is a Python number."""
    return self.item()


_local_scalar_dense.name = "_local_scalar_dense"


def _value_of(wrapper):
    """The number that a wrapper without memory stands for, as a tensor."""
    return _C.array(handle_torch_dispatch(_local_scalar_dense, (wrapper,), {}), wrapper.dtype, True)


def _before_reading(tensor):
    tell_mode("before_reading", tensor)


def tell_mode(event, tensor):
    """Tells the innermost dispatch mode, if it wants to know, what happens to a tensor apart from operators.

    before_reading: Python reads its values. after_making: it has been made of values of Python; what the mode returns
    takes its place.
    """
    tell = getattr(_modes.dispatch[-1], event, None) if _modes.dispatch else None
    if tell is None:
        return None
    with disable_torch_dispatch():
        return tell(tensor)


class _Switch:
    """A context in which a native switch is on."""

    def __init__(self, switch):
        self.switch = switch

    def __enter__(self):
        self.before = self.switch(True)

    def __exit__(self, *_):
        self.switch(self.before)


def disable_torch_function():
    """A context in which tensors with `__torch_function__` are treated as plain tensors."""
    return _Switch(_C.disable_overrides)


class DisableTorchFunctionSubclass:
    """A context in which tensors with `__torch_function__` are treated as plain tensors; modes are still asked.

    >>> from flambeau._tensor.overriding import DisableTorchFunctionSubclass, has_torch_function
    >>> with DisableTorchFunctionSubclass():
    ...     has_torch_function([type("Own", (flambeau.Tensor,), {})(2)])
    False
    """

    def __enter__(self):
        _modes.plain += 1

    def __exit__(self, *_):
        _modes.plain -= 1


def disable_torch_dispatch():
    """A context in which `__torch_dispatch__` is not asked."""
    return _Switch(_C.disable_dispatch)


def has_torch_function(values):
    """Whether a call with these arguments would go to an override."""
    if _modes.passed:
        _modes.passed = False
        return False
    if overrides_are_off():
        return False
    return bool(_modes.function or overriding(tuple(values), {}, "__torch_function__"))


def has_torch_function_unary(x):
    """Whether a call with this one argument would go to an override."""
    return has_torch_function((x,))


def has_torch_function_variadic(*args):
    """Whether a call with these arguments would go to an override.

    >>> from flambeau._tensor.overriding import has_torch_function_unary, has_torch_function_variadic
    >>> own = type("Own", (flambeau.Tensor,), {})(2)
    >>> has_torch_function_unary(own), has_torch_function_variadic(1, own), has_torch_function_variadic(1)
    (True, True, False)
    """
    return has_torch_function(args)


def function_modes():
    """The function modes that this thread is in, newest last."""
    return list(_modes.function)


def dispatch_modes():
    """The dispatch modes that this thread is in, newest last."""
    return list(_modes.dispatch)


@contextlib.contextmanager
def enable_reentrant_dispatch():
    """A context within `__torch_dispatch__` in which gradients are recorded as they were around the call.

    >>> import flambeau
    >>> class Add(flambeau.overrides.TorchDispatchMode):
    ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
    ...         with flambeau.overrides.enable_reentrant_dispatch():
    ...             print(func.name, flambeau.is_grad_enabled())
    ...         return func(*args, **(kwargs or {}))
    >>> with Add():
    ...     _ = flambeau.ones(2).exp()
    ones True
    exp True
    """
    before = _C.set_grad_enabled(_modes.around[-1] if _modes.around else _C.is_grad_enabled())
    try:
        yield
    finally:
        _C.set_grad_enabled(before)


@contextlib.contextmanager
def passing_once():
    """A context in which the next question about overrides, and only that, is answered with no."""
    before, _modes.passed = _modes.passed, True
    try:
        yield
    finally:
        _modes.passed = before


def is_tensor_like(inp):
    """Whether `inp` is a Tensor or defines `__torch_function__`."""
    return isinstance(inp, _C.Tensor) or hasattr(type(inp), "__torch_function__")


def _default_torch_dispatch(cls, func, types, args=(), kwargs=None):
    """What `super().__torch_dispatch__` does: runs the operator on the values, and gives plain tensors."""
    with disable_torch_dispatch():
        return func(*args, **(kwargs or {}))


def takes_dispatch(kind):
    """Whether a class defines `__torch_dispatch__`, apart from the one that every tensor has."""
    method = getattr(kind, "__torch_dispatch__", None)
    return method is not None and getattr(method, "__func__", None) is not _default_torch_dispatch


def _default_torch_function(cls, func, types, args=(), kwargs=None):
    """What Python subclasses inherit: run the operator, and give tensor results the subclass's type."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    with DisableTorchFunctionSubclass() if _modes.function else disable_torch_function():  # a mode may take plain ones
        result = func(*args, **(kwargs or {}))
    return _converted(result, cls)


def _converted(result, cls):
    if isinstance(result, _C.Tensor):
        if isinstance(result, cls) or _C.level_of(result):  # inside a transform, what it wraps has the class
            return result
        return result.as_subclass(cls)
    if type(result) is tuple or isinstance(result, list) or hasattr(result, "n_sequence_fields"):  # of return_types
        return type(result)([_converted(r, cls) for r in result])
    return result


_C.Tensor.__torch_function__ = classmethod(_default_torch_function)
_C.Tensor.__torch_dispatch__ = classmethod(_default_torch_dispatch)
_C.set_handlers(handle_torch_function, handle_torch_dispatch)
