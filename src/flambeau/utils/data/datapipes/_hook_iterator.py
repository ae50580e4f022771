"""One iterator of a datapipe at a time: a new one begins the pipe anew, and those before it end with an error.

What a class says in `__iter__`, `__next__` and `reset` is wrapped when the class is made, so that its samples are
counted and its iterators know whether they are still the latest.
"""

import functools
import inspect
from enum import Enum

from ...._shown import shown

_NOTED = "raised in __iter__ of "


class _SnapshotState(Enum):
    """Where a datapipe is: at its beginning, put to a place (from which it must not go back), or under way."""""

    NotStarted = 0
    Restored = 1
    Iterating = 2


def described(pipe):
    """A datapipe and what it was made of, in words."""
    parts = [f"{name}={value if name in _pipes(pipe) else _short(value)}"
             for name, value in sorted(vars(pipe).items()) if not name.startswith("_")]
    return f"{type(pipe).__name__}({', '.join(parts)})"


def _pipes(pipe):
    return [name for name, value in vars(pipe).items() if hasattr(type(value), "register_datapipe_as_function")]


def _short(value):
    return value.__qualname__ if inspect.isfunction(value) else shown(value)


class PipeIterator:
    """An iterator over a datapipe. It begins the pipe anew when it is first asked for a sample, or when `begin` is."""

    def __init__(self, pipe, method):
        self._pipe, self._method = pipe, method
        self._turn = self._samples = None

    def begin(self):
        """Makes this the one iterator of the pipe."""
        self._turn = self._pipe._begin_turn()
        self._samples = self._method(self._pipe)
        return self

    def __iter__(self):
        return self

    def __next__(self):
        pipe = self._pipe
        if self._turn is None:
            self.begin()
        if not pipe._has_turn(self._turn):
            raise RuntimeError(
                f"This iterator is invalidated: a newer one was made of the same datapipe, {described(pipe)}, which "
                "has one iterator at a time; give each reader its own with .fork()")
        try:
            sample = next(self._samples)
        except StopIteration:
            raise
        except Exception as error:
            if not any(note.startswith(_NOTED) for note in getattr(error, "__notes__", ())):
                error.add_note(_NOTED + described(pipe))
            raise
        if self._samples is not pipe:  # a pipe that is its own iterator counts in __next__
            pipe._number_of_samples_yielded += 1
        return sample

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(f"the iterator of a datapipe has no attribute {shown(name)}")
        return getattr(self._samples, name)

    def __reduce__(self):
        raise TypeError("the iterator of a datapipe cannot be pickled; pickle the datapipe")


def _begun(method):
    """`__iter__`: a generator begins with its first sample, as generators do; others begin at once."""
    lazily = inspect.isgeneratorfunction(method)

    @functools.wraps(method)
    def begin(self):
        ahead = self._fast_forward_iterator
        if ahead is not None:
            self._fast_forward_iterator, self._snapshot_state = None, _SnapshotState.Iterating
            return ahead
        found = PipeIterator(self, method)
        return found if lazily else found.begin()
    return begin


def _counted(method):
    """`__next__` of a pipe that is its own iterator."""
    @functools.wraps(method)
    def advance(self):
        sample = method(self)
        self._number_of_samples_yielded += 1
        return sample
    return advance


def _unless_restored(method):
    """`reset`: what was put to a place stays there once."""
    @functools.wraps(method)
    def reset(self):
        if self._snapshot_state is not _SnapshotState.Restored:
            self._number_of_samples_yielded, self._fast_forward_iterator = 0, None
            method(self)
        self._snapshot_state = _SnapshotState.Iterating
    return reset


_WRAPPED = {"__iter__": _begun, "__next__": _counted, "reset": _unless_restored}


def one_at_a_time(cls):
    """Wraps the methods that the class itself defines."""
    for name, wrap in _WRAPPED.items():
        if name in vars(cls):
            setattr(cls, name, wrap(vars(cls)[name]))
