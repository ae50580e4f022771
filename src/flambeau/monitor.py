"""Statistics of a running program as events: when one is logged, what it says, and who is told."""

import threading
import time
from datetime import datetime, timedelta
from warnings import warn

from ._shown import NamedNumber, shown

STAT_EVENT = "torch.monitor.Stat"


class Aggregation(NamedNumber):
    """What a `Stat` tells of the values in a window."""

    VALUE = 0
    MEAN = 2
    COUNT = 3
    SUM = 4
    MAX = 5
    MIN = 6


VALUE, MEAN, COUNT, SUM, MAX, MIN = Aggregation
#: what is told -> its number from the values of a window, of which there is one at least
_TOLD = {VALUE: lambda values: values[-1], MEAN: lambda values: sum(values) / len(values),
         COUNT: lambda values: float(len(values)), SUM: sum, MAX: max, MIN: min}


class Event:
    """Something that happened: a name shared by events of one kind, a datetime, and data, {str: str or number}."""

    def __init__(self, name, timestamp, data):
        if not isinstance(timestamp, datetime):
            raise TypeError(f"Event: timestamp must be a datetime, got {shown(timestamp)}")
        for key, value in data.items():
            if not isinstance(key, str) or not isinstance(value, (str, bool, int, float)):
                raise TypeError(f"Event: data is {{str: str, float, int or bool}}, got {shown(key)}: {shown(value)}")
        self.name, self.timestamp, self.data = name, timestamp, dict(data)


class EventHandlerHandle:
    """What `register_event_handler` gives, and `unregister_event_handler` takes."""

    def __init__(self, handler):
        self._handler = handler


_handlers = []  # the handles, in order of registration


def register_event_handler(callback):
    """From now on calls `callback(event)` with every event, in the thread that logs it.

    >>> import flambeau, datetime
    >>> names = []
    >>> handle = flambeau.monitor.register_event_handler(lambda event: names.append(event.name))
    >>> flambeau.monitor.log_event(flambeau.monitor.Event("epoch", datetime.datetime.now(), {"loss": 0.5}))
    >>> flambeau.monitor.unregister_event_handler(handle)
    >>> names
    ['epoch']
    """
    if not callable(callback):
        raise TypeError(f"register_event_handler: expected a function of an event, got {shown(callback)}")
    handle = EventHandlerHandle(callback)
    _handlers.append(handle)
    return handle


def unregister_event_handler(handler):
    """The function behind this handle is not called any more."""
    if not isinstance(handler, EventHandlerHandle):
        raise TypeError(f"unregister_event_handler: expected what register_event_handler gave, got {shown(handler)}")
    if handler in _handlers:
        _handlers.remove(handler)


def log_event(event):
    """Tells every handler of the event."""
    for handle in tuple(_handlers):
        handle._handler(event)


class Stat:
    """Sums up values window by window, and logs each window that had some: at the first value after it, when there are
    `max_samples` values (further ones do not count until the window is over), or when the Stat is deleted.

    aggregations: which numbers; window_size: a timedelta.

    >>> import flambeau, datetime
    >>> from flambeau.monitor import Aggregation, Stat
    >>> loss = Stat("loss", [Aggregation.SUM, Aggregation.MAX], datetime.timedelta(hours=1), max_samples=2)
    >>> for value in (3, 4):
    ...     loss.add(value)
    >>> loss.get()
    {<Aggregation.SUM: 4>: 7.0, <Aggregation.MAX: 5>: 4.0}
    """

    def __init__(self, name, aggregations, window_size, max_samples=2**63 - 1):
        if not isinstance(window_size, timedelta):
            raise TypeError(f"Stat: window_size must be a timedelta, got {shown(window_size)}")
        self._name, self._told = name, [Aggregation(kind) for kind in aggregations]
        self._window, self._most = window_size.total_seconds(), int(max_samples)
        self._lock, self._begun, self._full = threading.RLock(), time.monotonic(), False
        self._values, self._last = [], dict.fromkeys(self._told, 0.0)

    @property
    def name(self):
        """What it is called."""
        return self._name

    @property
    def count(self):
        """How many values this window has so far."""
        return len(self._values)

    def add(self, v):
        """One value more."""
        value = float(v)
        with self._lock:
            now = time.monotonic()
            if now - self._begun >= self._window:
                self._close()
                self._begun, self._full = now, False
            if self._full:
                return
            self._values.append(value)
            if len(self._values) >= self._most:
                self._close()
                self._full = True

    def get(self):
        """{aggregation: number} of the last window that was logged; zeros before there is one."""
        return dict(self._last)

    def _close(self):
        values, self._values = self._values, []
        if not values:
            return
        self._last = {kind: _TOLD[kind](values) for kind in self._told}
        data = {f"{self._name}.{kind.name.lower()}": number for kind, number in self._last.items()}
        log_event(Event(STAT_EVENT, datetime.now(), data))

    def __del__(self):
        if getattr(self, "_values", None):
            self._close()


def set_vital(*args, **kwargs):
    """Older programs told here that a part was used. Nothing is kept; a warning says so."""
    warn("set_vital: nothing is kept of what it is told; leave the call out, or use monitor.log_event", UserWarning,
         stacklevel=2)


class TensorboardEventHandler:
    """An event handler that writes the numbers of every `Stat` as scalars of a `SummaryWriter`."""

    def __init__(self, writer):
        self._writer = writer

    def __call__(self, event):
        """Writes the event, if it is one of a Stat."""
        if event.name == STAT_EVENT:
            for name, value in event.data.items():
                self._writer.add_scalar(name, value, walltime=event.timestamp.timestamp())
