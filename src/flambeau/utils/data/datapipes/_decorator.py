"""Decorators of datapipes: a functional form, a check of arguments or samples, and pipes whose order is not fixed."""

import functools
import inspect
from typing import Any, get_args, get_origin, get_type_hints

from ...._shown import class_name, shown
from ._typing import element_hint, fits
from .datapipe import IterDataPipe, MapDataPipe


class functional_datapipe:
    """Class decorator: `pipe.name(…)` makes a pipe of the class.

    >>> from flambeau.utils.data import IterDataPipe, functional_datapipe
    >>> @functional_datapipe("doubled")
    ... class Doubler(IterDataPipe):
    ...     def __init__(self, source):
    ...         self.source = source
    ...     def __iter__(self):
    ...         return (2 * sample for sample in self.source)
    >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([1, 2]).doubled())
    [2, 4]
    """

    def __init__(self, name, enable_df_api_tracing=False):
        self.name, self.enable_df_api_tracing = name, enable_df_api_tracing

    def __call__(self, cls):
        kind = next((k for k in (IterDataPipe, MapDataPipe) if isinstance(cls, type) and issubclass(cls, k)), None)
        if kind is None:
            raise TypeError("functional_datapipe: expected a subclass of IterDataPipe or MapDataPipe, got "
                            f"{shown(cls)}")
        kind.register_datapipe_as_function(self.name, cls, self.enable_df_api_tracing)
        return cls


class _Switch:
    """Context in which a setting of the module has another value."""

    _name, _value = "", None

    def __init__(self):
        self._before = _settings[self._name]
        _settings[self._name] = self._value

    def __enter__(self):
        return self

    def __exit__(self, *error):
        _settings[self._name] = self._before


_settings = {"determinism": False, "validation": True}


class guaranteed_datapipes_determinism(_Switch):
    """Context in which pipes that are marked `non_deterministic` cannot be made."""

    _name, _value = "determinism", True


class runtime_validation_disabled(_Switch):
    """Context in which `runtime_validation` looks at nothing."""

    _name, _value = "validation", False


def non_deterministic(arg):
    """Class decorator for pipes whose order may change from run to run; `guaranteed_datapipes_determinism` refuses
    them.

    Given a function, it decorates a class whose pipes are so if `function(*arguments)` is true.
    """
    if isinstance(arg, type):
        return _marked(arg, lambda *args, **kwargs: True)
    if not callable(arg):
        raise TypeError(f"non_deterministic: expected a subclass of IterDataPipe, or a function, got {shown(arg)}")
    return lambda cls: _marked(cls, arg)


def _marked(cls, changes):
    if not (isinstance(cls, type) and issubclass(cls, IterDataPipe)):
        raise TypeError(f"non_deterministic: expected a subclass of IterDataPipe, got {shown(cls)}")
    made = cls.__init__

    @functools.wraps(made)
    def init(self, *args, **kwargs):
        if _settings["determinism"] and changes(*args, **kwargs):
            raise TypeError(f"{cls.__name__}: its order may change from run to run, and "
                            "guaranteed_datapipes_determinism is on; make it outside of that context if this may be")
        made(self, *args, **kwargs)
    cls.__init__ = init
    return cls


def argument_validation(f):
    """Decorator of `__init__`: arguments whose hint is IterDataPipe must be such pipes, else TypeError."""
    signature, hints = inspect.signature(f), get_type_hints(f)
    wanted = {name for name, hint in hints.items() if _is_pipe(get_origin(hint) or hint)}

    @functools.wraps(f)
    def checked(*args, **kwargs):
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            if name in wanted and not isinstance(value, IterDataPipe):
                raise TypeError(f"{f.__qualname__}: argument {shown(name)} must be an IterDataPipe, got "
                                f"{shown(value)}; datapipes.iter.IterableWrapper makes one of an iterable")
        return f(*args, **kwargs)
    return checked


def _is_pipe(hint):
    return isinstance(hint, type) and issubclass(hint, IterDataPipe)


def runtime_validation(f):
    """Decorator of `__iter__`: a sample that is not what its return hint says raises RuntimeError.

    >>> from collections.abc import Iterator
    >>> from flambeau.utils.data import IterDataPipe, runtime_validation
    >>> class Numbers(IterDataPipe):
    ...     @runtime_validation
    ...     def __iter__(self) -> Iterator[int]:
    ...         yield from (1, "two")
    >>> list(Numbers())
    Traceback (most recent call last):
    RuntimeError: Numbers: a sample is 'two', but __iter__ says that samples are <class 'int'>
    raised in __iter__ of Numbers()
    """
    if f.__name__ != "__iter__":
        raise TypeError(f"runtime_validation: expected a method __iter__, got {f.__name__}")

    @functools.wraps(f)
    def checked(self):
        hint = _sample_hint(type(self), f)
        for sample in f(self):
            if _settings["validation"] and not fits(sample, hint):
                raise RuntimeError(f"{class_name(type(self))}: a sample is {shown(sample)}, but __iter__ says that "
                                   f"samples are {hint}")
            yield sample
    return checked


def _sample_hint(cls, method):
    """What `__iter__` or the base `IterDataPipe[…]` says of the samples."""
    hint = element_hint(get_type_hints(method).get("return"))
    if hint is not Any:
        return hint
    bases = (base for c in cls.__mro__ for base in vars(c).get("__orig_bases__", ()))
    return next((get_args(base)[0] for base in bases if _is_pipe(get_origin(base))), Any)
