"""What each rank exchanged and when it waited: a picture for chrome://tracing and Perfetto."""

import contextlib
import json
import os
import threading
import time

from ._groups import _groups, world
from ._objects import gather_object

_CALLS = {"barrier", "broadcast", "all_reduce", "reduce", "all_gather", "gather", "scatter", "reduce_scatter",
          "all_to_all"}


class _Recorded:
    """An engine whose calls are written down."""

    def __init__(self, engine, group, rank, events):
        self._rank, self._engine, self._group, self._events, self._texts = rank, engine, group, events, {}

    def __getattr__(self, name):
        found = getattr(self._engine, name)
        if name in _CALLS:
            return lambda *args: self._timed(args[-2], found, args)
        return found

    def send(self, *args):
        """Its end is that of `finish`."""
        return self._begun(self._engine.send, args)

    def receive(self, *args):
        """Its end is that of `finish`."""
        return self._begun(self._engine.receive, args)

    def _begun(self, begin, args):
        message = begin(*args)
        self._texts[id(message)] = args[-1]
        return message

    def finish(self, message, timeout):
        """Waits for a message."""
        text = self._texts.get(id(message), "message")
        return self._timed(text, self._engine.finish, (message, timeout))

    def _timed(self, text, function, args):
        start = time.time_ns()
        try:
            return function(*args)
        finally:
            name, _, place = text.partition(" at ")
            place, _, title = place.partition(" as ")
            self._events.append({
                "name": title or name.split(" ")[0], "cat": "distributed", "ph": "X", "pid": self._rank,
                "tid": threading.current_thread().name, "ts": start / 1e3, "dur": (time.time_ns() - start) / 1e3,
                "args": {"call": name, "at": place, "group": self._group.group_name}})


@contextlib.contextmanager
def timeline(path):
    """Context in which every collective and message of this rank is written down; all ranks enter it.

    At its end rank 0 writes the events of all ranks to `path`, as a Chrome trace: one row for each thread of each rank,
    whose calls say what they exchanged and where they stand in the program. Where one raises, each rank writes its own
    events to `path` with its rank added.
    """
    everybody, events = world("timeline"), []
    rank = everybody.rank()
    engines = {group: group.engines for group in _groups}
    for group in engines:
        group.engines = {kind: _Recorded(each, group, rank, events) for kind, each in group.engines.items()}
    try:
        yield
    except BaseException:
        _write(f"{os.fspath(path)}.rank{rank}", events)
        raise
    finally:
        for group, own in engines.items():
            group.engines = own
    every = [None] * everybody.size() if rank == 0 else None
    gather_object(events, every, dst=0)
    if every is not None:
        _write(path, [event for part in every for event in part])


def _write(path, events):
    ranks = sorted({event["pid"] for event in events})
    names = [{"name": "process_name", "ph": "M", "pid": rank, "args": {"name": f"rank {rank}"}} for rank in ranks]
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": names + events}, file)
