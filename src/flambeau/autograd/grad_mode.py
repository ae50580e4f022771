"""Whether operations record a graph: scopes that switch it, usable as `with` blocks and as decorators.

Every class here restores exactly the state it found. A decorated generator runs each of its steps in the scope and
hands the caller's own state back at every `yield`.
"""

import warnings
from functools import wraps

from .. import _C

_GENERATOR = 0x20  # CO_GENERATOR; reading the flag spares importing `inspect`


class _DecoratorContextManager:
    """A context manager that also decorates functions and generator functions."""

    def clone(self):
        """A fresh scope with the same settings: decorated functions may recurse."""
        return type(self)()

    def __call__(self, func):
        if isinstance(func, type):
            warnings.warn(f"{type(self).__name__}: decorating a class, here {func.__name__}, gives a function that "
                          "makes its objects in this scope; decorate __init__ to keep the class", FutureWarning,
                          stacklevel=2)
        code = getattr(func, "__code__", None)
        if code is not None and code.co_flags & _GENERATOR:
            return _scoped_generator(self.clone, func)

        @wraps(func)
        def scoped(*args, **kwargs):
            with self.clone():
                return func(*args, **kwargs)

        return scoped


def _scoped_generator(scope, func):
    @wraps(func)
    def scoped(*args, **kwargs):
        with scope():
            generator = func(*args, **kwargs)
        step, value = generator.send, None
        try:
            while True:
                try:
                    with scope():
                        item = step(value)
                except StopIteration as stop:
                    return stop.value
                try:
                    value = yield item
                    step = generator.send
                except GeneratorExit:
                    with scope():
                        generator.close()
                    raise
                except BaseException as error:  # thrown in by the caller: the generator decides
                    step, value = generator.throw, error
        finally:
            generator.close()

    return scoped


class _BareScope(_DecoratorContextManager):
    """Lets `@no_grad` stand without parentheses."""

    def __new__(cls, orig_func=None):
        scope = super().__new__(cls)
        return scope if orig_func is None else scope(orig_func)

    def __init__(self, orig_func=None):
        pass


class no_grad(_BareScope):
    """Scope in which no operation records a graph.

    >>> import flambeau
    >>> x = flambeau.ones(2, requires_grad=True)
    >>> with flambeau.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    def __enter__(self):
        self._previous = _C.set_grad_enabled(False)

    def __exit__(self, *_):
        _C.set_grad_enabled(self._previous)


class enable_grad(_BareScope):
    """Scope in which operations record again, inside `no_grad` too.

    >>> import flambeau
    >>> x = flambeau.ones(2, requires_grad=True)
    >>> with flambeau.no_grad(), flambeau.enable_grad():
    ...     y = x * 2
    >>> y.requires_grad
    True
    """

    def __enter__(self):
        self._previous = _C.set_grad_enabled(True)

    def __exit__(self, *_):
        _C.set_grad_enabled(self._previous)


class set_grad_enabled(_DecoratorContextManager):
    """Switches recording on or off: at once as a function, and for a block as a context manager.

    >>> import flambeau
    >>> with flambeau.set_grad_enabled(False):
    ...     flambeau.is_grad_enabled()
    False
    >>> flambeau.is_grad_enabled()
    True
    """

    def __init__(self, mode):
        if not isinstance(mode, bool):
            raise TypeError(f"set_grad_enabled: expected a bool, got {type(mode).__name__}")
        self.mode = mode
        self._previous = _C.set_grad_enabled(mode)

    def clone(self):
        return set_grad_enabled(self.mode)

    def __call__(self, func):
        _C.set_grad_enabled(self._previous)  # only the function's body is meant, not what follows the decorator
        return super().__call__(func)

    def __enter__(self):
        _C.set_grad_enabled(self.mode)

    def __exit__(self, *_):
        _C.set_grad_enabled(self._previous)


class inference_mode(_DecoratorContextManager):
    """`no_grad` whose results can never enter a graph, and so skip version counting.

    >>> import flambeau
    >>> with flambeau.inference_mode():
    ...     y = flambeau.ones(2) * 2
    >>> y.is_inference(), y.requires_grad
    (True, False)
    """

    def __new__(cls, mode=True):
        scope = super().__new__(cls)
        if isinstance(mode, bool):
            return scope
        scope.mode = True
        return scope(mode)

    def __init__(self, mode=True):
        self.mode = mode

    def clone(self):
        return inference_mode(self.mode)

    def __enter__(self):
        self._inference = _C.set_inference_mode(self.mode)
        self._grad = _C.set_grad_enabled(not self.mode)

    def __exit__(self, *_):
        _C.set_grad_enabled(self._grad)
        _C.set_inference_mode(self._inference)


class enforce_grad_layout_policy(_DecoratorContextManager):
    """Whether a new `.grad` must be laid out as its parameter is (dense ones) or in rows (others); it is, by default.

    With False a gradient that nobody else holds becomes `.grad` as it is. At once as a function, and for a block.

    >>> import flambeau
    >>> p = flambeau.ones(2, 3).t().requires_grad_()
    >>> (p * flambeau.ones(3, 2)).sum().backward()
    >>> p.grad.stride()
    (1, 3)
    """

    def __init__(self, enable=True):
        self.mode = bool(enable)
        self._previous = _C.set_grad_layout(self.mode)

    def clone(self):
        return enforce_grad_layout_policy(self.mode)

    def __call__(self, func):
        _C.set_grad_layout(self._previous)
        return super().__call__(func)

    def __enter__(self):
        _C.set_grad_layout(self.mode)

    def __exit__(self, *_):
        _C.set_grad_layout(self._previous)


class set_multithreading_enabled(_DecoratorContextManager):
    """Accepted for PyTorch's programs: a backward pass here always runs on the thread that asked for it.

    >>> import flambeau
    >>> with flambeau.autograd.set_multithreading_enabled(False):
    ...     flambeau.ones(1, requires_grad=True).sum().backward()
    """

    def __init__(self, mode):
        if not isinstance(mode, bool):
            raise TypeError(f"set_multithreading_enabled: expected a bool, got {type(mode).__name__}")
        self.mode = mode

    def clone(self):
        return set_multithreading_enabled(self.mode)

    def __enter__(self):
        pass

    def __exit__(self, *_):
        pass


def is_grad_enabled():
    """Whether operations record a graph here.

    >>> import flambeau
    >>> flambeau.is_grad_enabled()
    True
    """
    return _C.is_grad_enabled()


def is_inference_mode_enabled():
    """Whether this is inside an `inference_mode` scope.

    >>> import flambeau
    >>> flambeau.is_inference_mode_enabled()
    False
    """
    return _C.is_inference_mode()
