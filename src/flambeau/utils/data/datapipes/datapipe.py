"""IterDataPipe and MapDataPipe: datasets with a method for each transformation that was registered for them."""

import pickle
from functools import partial
from importlib import import_module
from importlib.util import find_spec

from ...._shown import shown
from ..dataset import Dataset, IterableDataset, T
from ._forms import iter_forms, map_forms
from ._hook_iterator import _SnapshotState, one_at_a_time


class _Functional:
    """What both kinds have: methods from a table, and hooks for pickling and printing."""

    functions = {}
    getstate_hook = reduce_ex_hook = str_hook = repr_hook = None

    @classmethod
    def register_function(cls, function_name, function):
        """`pipe.function_name(…)` is `function(pipe, …)` from now on."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(cls, function_name, cls_to_register, enable_df_api_tracing=False):
        """`pipe.function_name(…)` makes `cls_to_register(pipe, …)` from now on."""
        if enable_df_api_tracing:
            raise NotImplementedError("register_datapipe_as_function: enable_df_api_tracing=True records operations on "
                                      "data frames, which is not available; map a function over the frames")
        if function_name in cls.functions:
            raise Exception(f"register_datapipe_as_function: the name {shown(function_name)} belongs to "
                            f"{cls.functions[function_name].__name__}; choose another")
        cls.register_function(function_name, cls_to_register)

    @classmethod
    def set_getstate_hook(cls, hook_fn):
        """While it is set, pickling takes `hook_fn(state)` in the place of a pipe's state; None takes it away."""
        cls._set_hook("getstate_hook", hook_fn)

    @classmethod
    def set_reduce_ex_hook(cls, hook_fn):
        """While it is set, pickling asks `hook_fn(pipe)`, which may raise NotImplementedError; None takes it away."""
        cls._set_hook("reduce_ex_hook", hook_fn)

    @classmethod
    def _set_hook(cls, name, hook):
        base = next(c for c in cls.__mro__ if "functions" in vars(c))
        if hook is not None and getattr(base, name) is not None:
            raise RuntimeError(f"{base.__name__}.set_{name}: there is one already; take it away first with None")
        setattr(base, name, None if hook is None else staticmethod(hook))

    def __getattr__(self, name):
        found = type(self).functions.get(name)
        if found is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        method = partial(found, self)
        method.__doc__ = found.__doc__
        return method

    def __getstate__(self):
        hook = type(self).getstate_hook
        return self.__dict__ if hook is None else hook(self.__dict__)

    def __reduce_ex__(self, protocol):
        hook = type(self).reduce_ex_hook
        if hook is not None:
            try:
                return hook(self)
            except NotImplementedError:
                pass
        return super().__reduce_ex__(protocol)

    def __repr__(self):
        hook = type(self).repr_hook
        return type(self).__qualname__ if hook is None else hook(self)

    def __str__(self):
        hook = type(self).str_hook
        return type(self).__qualname__ if hook is None else hook(self)

    def __dir__(self):
        return [*super().__dir__(), *type(self).functions]


class MapDataPipe(_Functional, Dataset[T]):
    """A dataset by key: subclasses define `__getitem__`, and usually `__len__`.

    >>> from flambeau.utils.data.datapipes.map import SequenceWrapper
    >>> list(SequenceWrapper([1, 2, 3]).map(str).batch(2))
    [['1', '2'], ['3']]
    """

    functions = map_forms()


class IterDataPipe(_Functional, IterableDataset[T]):
    """A dataset by iteration: subclasses define `__iter__`, or `__next__`.

    A pipe has one iterator at a time: a new one begins the pipe anew (`reset`), and an older one raises RuntimeError.

    >>> from flambeau.utils.data import IterDataPipe
    >>> class Numbers(IterDataPipe):
    ...     def __iter__(self):
    ...         yield from range(6)
    >>> list(Numbers().map(str).batch(4))
    [['0', '1', '2', '3'], ['4', '5']]
    """

    functions = iter_forms()
    _valid_iterator_id = None
    _number_of_samples_yielded = 0
    _snapshot_state = _SnapshotState.NotStarted
    _fast_forward_iterator = None

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        one_at_a_time(cls)

    def __iter__(self):
        if not hasattr(self, "__next__"):
            raise TypeError(f"'{type(self).__name__}' object is not an iterator: define __iter__ or __next__")
        return self

    def reset(self):
        """Back to the beginning; called when an iteration begins. Pipes that hold something override it."""

    def _begin_turn(self):
        """The number of a new iterator, which from now on is the only one."""
        self._valid_iterator_id = 0 if self._valid_iterator_id is None else self._valid_iterator_id + 1
        self.reset()
        return self._valid_iterator_id

    def _has_turn(self, number):
        return number == self._valid_iterator_id


one_at_a_time(IterDataPipe)


class DFIterDataPipe(IterDataPipe):
    """Base of pipes whose samples are data frames."""

    def _is_dfpipe(self):
        return True


class DataChunk(list):
    """A list of samples that belong together: a batch or a group.

    >>> from flambeau.utils.data import DataChunk
    >>> DataChunk([1, 2])
    [1, 2]
    """

    def __init__(self, items):
        self.items = list(items)
        super().__init__(self.items)

    def as_str(self, indent=""):
        """The samples in one line."""
        return f"{indent}[{', '.join(map(str, self))}]"

    def __iter__(self):
        yield from super().__iter__()

    def raw_iterator(self):
        """An iterator over what the chunk was made of."""
        yield from self.items


class _SerializationWrapper:
    """A datapipe as it is sent to workers: with dill where it is installed and pickle alone does not do."""

    def __init__(self, datapipe):
        self._datapipe = datapipe

    def __reduce_ex__(self, protocol):
        try:
            by, data = "pickle", pickle.dumps(self._datapipe)
        except (AttributeError, TypeError, pickle.PicklingError):
            if find_spec("dill") is None:
                raise
            by, data = "dill", import_module("dill").dumps(self._datapipe)
        return _unwrapped, (type(self), by, data)

    def __len__(self):
        return len(self._datapipe)


class _IterDataPipeSerializationWrapper(_SerializationWrapper, IterDataPipe):
    def __iter__(self):
        yield from self._datapipe


class _MapDataPipeSerializationWrapper(_SerializationWrapper, MapDataPipe):
    def __getitem__(self, index):
        return self._datapipe[index]


def _unwrapped(wrapper, by, data):
    """What came through a pickle of a wrapper."""
    return wrapper((import_module("dill") if by == "dill" else pickle).loads(data))
