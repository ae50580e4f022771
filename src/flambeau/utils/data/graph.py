"""Which datapipes a datapipe reads from: those in the state that it would be pickled with."""

import copyreg
import pickle
import warnings
from collections.abc import Collection

from ... import _C
from ..._shown import shown
from .datapipes.datapipe import IterDataPipe, MapDataPipe

PIPES = (IterDataPipe, MapDataPipe)
_NOTHING = (object, ())


class _Nowhere:
    """A file that keeps nothing."""

    def write(self, data):
        return len(data)


def _is_numbers(obj):
    """Whether it is a NumPy array of numbers, whose reduced form would be a copy of them."""
    return hasattr(type(obj), "__array_interface__") and not obj.dtype.hasobject


class _Finder(pickle.Pickler):
    """Goes through a state as pickle does, and notes the datapipes in it. What cannot be pickled is passed over.

    through: the pipes on the way to the state, which are gone through and not noted.
    """

    def __init__(self, through, only_datapipe):
        super().__init__(_Nowhere(), protocol=2)
        self.through, self.only_datapipe, self.found = through, only_datapipe, []

    def reducer_override(self, obj):
        """What is looked at in the place of an object that has no form of its own in pickles."""
        if obj is object:
            return NotImplemented
        if isinstance(obj, PIPES):
            if id(obj) in self.through:
                return (*_NOTHING, self.state_of(obj))
            self.found.append(obj)
            return _NOTHING
        if isinstance(obj, (_C.Tensor, type)) or _is_numbers(obj):
            return _NOTHING
        return self._parts(obj)

    def _parts(self, obj):
        try:
            reduce = copyreg.dispatch_table.get(type(obj))
            found = obj.__reduce_ex__(2) if reduce is None else reduce(obj)
        except Exception:
            return _NOTHING
        if isinstance(found, str):
            return _NOTHING
        _, arguments, *rest = found
        return (*_NOTHING, (arguments, [list(part) if hasattr(part, "__next__") else part for part in rest]))

    def state_of(self, pipe):
        """The state of a datapipe; with only_datapipe, what of it is a datapipe or a container."""
        state = pipe.__getstate__()
        if not self.only_datapipe:
            return state
        parts = state.values() if isinstance(state, dict) else state if isinstance(state, (tuple, list)) else [state]
        return [part for part in parts if isinstance(part, (*PIPES, Collection)) and not isinstance(part, (str, bytes))]


def _connected(pipe, only_datapipe, ancestors):
    """The datapipes in a pipe's state, each once."""
    finder = _Finder({*ancestors, id(pipe)}, only_datapipe)
    finder.dump(finder.state_of(pipe))
    return finder.found


def _graph(pipe, only_datapipe, ancestors):
    if id(pipe) in ancestors:
        return {}
    below = {}
    for other in _connected(pipe, only_datapipe, ancestors):
        below |= _graph(other, only_datapipe, ancestors | {id(pipe)})
    return {id(pipe): (pipe, below)}


def _checked(datapipe):
    if not isinstance(datapipe, PIPES):
        raise RuntimeError(f"traverse_dps: expected an IterDataPipe or a MapDataPipe, got {shown(datapipe)}")
    return datapipe


def traverse_dps(datapipe):
    """{id of the pipe: (the pipe, the same of the pipes that it reads from)}.

    Looked at are the attributes that are datapipes, and what is in those that are containers.

    >>> from flambeau.utils.data.graph import traverse_dps
    >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
    >>> source = IterableWrapper([1, 2])
    >>> batches = source.batch(2)
    >>> traverse_dps(batches) == {id(batches): (batches, {id(source): (source, {})})}
    True
    """
    return _graph(_checked(datapipe), True, frozenset())


def traverse(datapipe, only_datapipe=None):
    """traverse_dps(datapipe); with only_datapipe=False, everything in the pipes' states is looked at."""
    if only_datapipe is None:
        warnings.warn("traverse: say only_datapipe=True or False; without it everything is looked at, as with False",
                      FutureWarning, stacklevel=2)
    return _graph(_checked(datapipe), bool(only_datapipe), frozenset())
