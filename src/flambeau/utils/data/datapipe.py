"""MapDataPipe and IterDataPipe: datasets with a method for each transformation that was registered for them."""

from functools import partial

from ..._shown import shown
from .dataset import Dataset, IterableDataset


class _Functional:
    _functions = {}

    @classmethod
    def register_function(cls, function_name, function):
        """`pipe.function_name(…)` is `function(pipe, …)` from now on."""
        cls._functions = cls._functions | {function_name: function}

    @classmethod
    def register_datapipe_as_function(cls, function_name, cls_to_register, enable_df_api_tracing=False):
        """`pipe.function_name(…)` makes `cls_to_register(pipe, …)` from now on."""
        if function_name in cls._functions:
            raise Exception(f"register_datapipe_as_function: the name {shown(function_name)} belongs to "
                            f"{cls._functions[function_name].__name__}")
        cls.register_function(function_name, cls_to_register)

    def __getattr__(self, name):
        if name in type(self)._functions:
            return partial(type(self)._functions[name], self)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


class MapDataPipe(_Functional, Dataset):
    """A dataset by key: subclasses define `__getitem__`, and usually `__len__`."""


class IterDataPipe(_Functional, IterableDataset):
    """A dataset by iteration: subclasses define `__iter__`.

    >>> from flambeau.utils.data import IterDataPipe
    >>> class Numbers(IterDataPipe):
    ...     def __iter__(self):
    ...         return iter(range(3))
    >>> list(Numbers())
    [0, 1, 2]
    """
