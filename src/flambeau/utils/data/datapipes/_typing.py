"""Whether a value is what a type hint says, as far as that can be seen from the value."""

import collections.abc
import types
from typing import Any, TypeVar, Union, get_args, get_origin


def fits(value, hint):
    """Whether `value` is of the type that `hint` says; the elements of tuples, lists, sets and dicts are looked at.

    >>> from flambeau.utils.data.datapipes._typing import fits
    >>> fits((1, "a"), tuple[int, str]), fits([1, "a"], list[int])
    (True, False)
    """
    if hint is Any:
        return True
    if hint is None:
        return value is None
    if isinstance(hint, TypeVar):
        choices = hint.__constraints__ or ((hint.__bound__,) if hint.__bound__ else (Any,))
        return any(fits(value, choice) for choice in choices)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(fits(value, choice) for choice in arguments)
    if not isinstance(origin or hint, type):
        return True  # a form that says nothing about values
    return isinstance(value, origin or hint) and (not arguments or _elements_fit(value, origin, arguments))


def _elements_fit(value, origin, arguments):
    if isinstance(value, tuple) and origin is tuple and arguments[-1] is not Ellipsis:
        return len(value) == len(arguments) and all(map(fits, value, arguments))
    if isinstance(value, dict):
        return all(fits(k, arguments[0]) and fits(v, arguments[1]) for k, v in value.items())
    if isinstance(value, (tuple, list, set, frozenset)):
        return all(fits(element, arguments[0]) for element in value)
    return True


def element_hint(hint):
    """What the hint of an `__iter__` says of the samples: `int` of `Iterator[int]`."""
    found = get_origin(hint)
    if isinstance(found, type) and issubclass(found, collections.abc.Iterable) and get_args(hint):
        return get_args(hint)[0]
    return Any
