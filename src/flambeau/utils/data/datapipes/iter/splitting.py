"""One datapipe as several: `fork` gives all samples to each of its children, `demux` each sample to one of them.

The children read from one source, so what one of them is ahead of the others waits in a buffer. They begin anew
together: an iterator of a child that has one in this round already begins the next round for all.
"""

import copy
import warnings
from collections import deque

from ....._shown import shown
from ..datapipe import IterDataPipe
from ..utils.common import check_function

_END = object()
_COPIES = {None: lambda sample: sample, "shallow": copy.copy, "deep": copy.deepcopy}


class _Shared(IterDataPipe):
    """What the children of one source share. Subclasses say which sample is a child's next one."""

    _form = ""

    def __init__(self, datapipe, num_instances, buffer_size):
        self.main_datapipe, self.num_instances, self.buffer_size = datapipe, num_instances, buffer_size
        if buffer_size < 0:
            warnings.warn(f"{self._form}: Unlimited buffer: with buffer_size < 0 all samples that one child is ahead "
                          "of another are kept in memory", UserWarning, stacklevel=4)
        self._begin()

    def _begin(self):
        """Nothing has been read."""
        self._source, self._ended = None, False

    def reset(self):
        self._begin()

    def _read(self):
        """The next sample of the source, or _END."""
        if self._source is None:
            self._source = iter(self.main_datapipe)
        sample = _END if self._ended else next(self._source, _END)
        self._ended = sample is _END
        return sample

    def _check_room(self, used):
        if 0 <= self.buffer_size <= used:
            raise BufferError(f"{self._form}: one child is more than buffer_size={self.buffer_size} samples ahead of "
                              "another; read them in turns, or set a larger buffer_size (-1 for no bound)")

    def __getstate__(self):
        """Without what has been read: a copy begins anew."""
        kept = {name: value for name, value in vars(self).items() if name not in ("_source", "_ended", *self._held)}
        hook = IterDataPipe.getstate_hook
        return kept if hook is None else hook(kept)

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._begin()

    def __iter__(self):
        raise TypeError(f"{self._form}: iterate over the children")


class _ForkerIterDataPipe(_Shared):
    """The source of the children of a fork."""

    _form, _held = "fork", ("_waiting", "_first", "_positions")

    def __init__(self, datapipe, num_instances, buffer_size=1000, copy=None):
        if copy not in _COPIES:
            raise ValueError(f"fork: copy must be None, 'shallow' or 'deep', got {shown(copy)}")
        super().__init__(datapipe, num_instances, buffer_size)
        self.copy = copy

    def _begin(self):
        super()._begin()
        self._waiting, self._first = deque(), 0  # samples that a child still lacks, and the number of the first
        self._positions = [0] * self.num_instances

    def next_of(self, child):
        """The next sample of a child, or _END."""
        place = self._positions[child] - self._first
        if place == len(self._waiting):
            if not self._ended:
                self._check_room(place)
            sample = self._read()
            if sample is _END:
                return _END
            self._waiting.append(sample)
        sample = self._waiting[place]
        self._positions[child] += 1
        while self._waiting and min(self._positions) > self._first:
            self._waiting.popleft()
            self._first += 1
        return _COPIES[self.copy](sample)

    def exhausted(self):
        """Whether every child has had all samples."""
        return self._ended and not self._waiting

    def length(self):
        """How many samples a child has."""
        return len(self.main_datapipe)


class _DemultiplexerIterDataPipe(_Shared):
    """The source of the children of a demux."""

    _form, _held = "demux", ("_waiting",)

    def __init__(self, datapipe, num_instances, classifier_fn, drop_none, buffer_size):
        super().__init__(datapipe, num_instances, buffer_size)
        self.classifier_fn, self.drop_none = classifier_fn, drop_none

    def _begin(self):
        super()._begin()
        self._waiting = [deque() for _ in range(self.num_instances)]

    def next_of(self, child):
        """The next sample of a child, or _END."""
        while not self._waiting[child]:
            sample = self._read()
            if sample is _END:
                return _END
            number = self._class_of(sample)
            if number == child:
                return sample
            if number is not None:
                self._check_room(sum(map(len, self._waiting)))
                self._waiting[number].append(sample)
        return self._waiting[child].popleft()

    def _class_of(self, sample):
        number = self.classifier_fn(sample)
        if number is None and self.drop_none:
            return None
        if number is None or not 0 <= number < self.num_instances:
            raise ValueError(f"demux: classifier_fn must give a number from 0 to {self.num_instances - 1}, got "
                             f"{shown(number)}" + "; drop_none=True leaves such samples out" * (number is None))
        return number

    def exhausted(self):
        """Whether every child has had all its samples."""
        return self._ended and not any(self._waiting)

    def length(self):
        """Unknown before all samples are classified."""
        raise TypeError("demux: how many samples a child has is not known before they are read")


class _ChildDataPipe(IterDataPipe):
    """One of the datapipes that a fork or demux gives."""

    def __init__(self, main_datapipe, instance_id):
        self.main_datapipe, self.instance_id = main_datapipe, instance_id

    def __iter__(self):
        return iter(lambda: self.main_datapipe.next_of(self.instance_id), _END)

    def __len__(self):
        return self.main_datapipe.length()

    def _begin_turn(self):
        """Joins the round of the other children, or begins the next one."""
        main = self.main_datapipe
        if main._valid_iterator_id is None:
            main._valid_iterator_id = 0
        elif main._valid_iterator_id == self._valid_iterator_id:
            main._valid_iterator_id += 1
            if not main.exhausted():
                warnings.warn(f"{main._form}: the other children have not been read to their end, and a new iterator "
                              "of this one begins all of them anew", UserWarning, stacklevel=2)
            main.reset()
        self._valid_iterator_id = main._valid_iterator_id
        self.reset()
        return self._valid_iterator_id

    def _has_turn(self, number):
        return number == self._valid_iterator_id == self.main_datapipe._valid_iterator_id


def _check_count(num_instances, owner):
    if num_instances < 1:
        raise ValueError(f"{owner}: num_instances must be at least 1, got {shown(num_instances)}")


class ForkerIterDataPipe(IterDataPipe):
    """A list of `num_instances` datapipes, each with all the samples; for 1, the datapipe itself.

    buffer_size: how far one may be ahead of another. copy: None gives all the same objects; "shallow" or "deep" copies.

    >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
    >>> a, b = IterableWrapper([1, 2, 3]).fork(2)
    >>> list(a.zip(b.map(str)))
    [(1, '1'), (2, '2'), (3, '3')]
    """

    def __new__(cls, datapipe, num_instances, buffer_size=1000, copy=None):
        _check_count(num_instances, "fork")
        if num_instances == 1:
            return datapipe
        source = _ForkerIterDataPipe(datapipe, num_instances, buffer_size, copy)
        return [_ChildDataPipe(source, k) for k in range(num_instances)]


class DemultiplexerIterDataPipe(IterDataPipe):
    """A list of `num_instances` datapipes; a sample goes to the one whose number `classifier_fn(sample)` gives.

    drop_none: leaves out samples of which that is None. buffer_size: how many samples may wait for other children.

    >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
    >>> words, numbers = IterableWrapper(["a", "2", "b"]).demux(2, str.isdigit)
    >>> list(words), list(numbers)
    (['a', 'b'], ['2'])
    """

    def __new__(cls, datapipe, num_instances, classifier_fn, drop_none=False, buffer_size=1000):
        _check_count(num_instances, "demux")
        check_function(classifier_fn, "demux")
        source = _DemultiplexerIterDataPipe(datapipe, num_instances, classifier_fn, drop_none, buffer_size)
        return [_ChildDataPipe(source, k) for k in range(num_instances)]
