"""Exchanges that a GPU's stream carries out: what a call returns, and the thread that notices when one fails or hangs.

A call puts its work on a stream of the group's own, which first waits for the stream that the program is on. `wait()`
lets the program's stream wait for the result, and returns at once: the processor goes on.
"""

import threading
import time
from datetime import timedelta

from ._errors import DistBackendError, DistError
from ._work import Work

_LOOK = 0.02  # seconds between two looks at what is under way
_ASK = 0.5  # seconds between two looks at whether another rank has failed
_ANSWER = 2.0  # seconds in which the other ranks say where they are


class StreamWork(Work):
    """An exchange on a stream; `kept` holds its tensors until it is done."""

    def __init__(self, engine, where, seconds, result, kept):
        super().__init__(result)
        self.event, self.where, self.kept = None, where, kept
        self.seconds, self.deadline = seconds, time.monotonic() + seconds
        self._engine = engine

    def wait(self, timeout=timedelta(0)):
        """The current stream waits for it: True; for a barrier, this process does. RuntimeError: the group has failed,
        or `timeout` (0: none of its own) is over.
        """
        self._engine.check()
        seconds = timeout.total_seconds() if timeout is not None else 0
        if self._result is None or seconds > 0:
            super().wait(timedelta(seconds=seconds))
        if self._error is not None:
            raise self._error
        self._engine.cuda.current_stream().wait_event(self.event)
        return True

    def synchronize(self):
        """This process waits until it is done."""
        super().wait()

    def finish(self, error=None):
        """It is done, or has failed: its tensors are let go."""
        self.kept = None
        self._finish(error)


class Watch:
    """A thread that looks at what is under way on an engine's stream.

    Through the store, all ranks learn that one has failed, and say what they were doing.
    """

    def __init__(self, engine, store):
        self._engine, self._store = engine, store
        self._works, self._lock, self._stop = [], threading.Lock(), threading.Event()
        self._asked = 0.0
        self._thread = threading.Thread(target=self._run, name="flambeau-nccl-watch", daemon=True)
        self._thread.start()

    def add(self, work):
        """Looks at this one as well."""
        with self._lock:
            self._works.append(work)

    def under_way(self):
        """What is not done yet."""
        with self._lock:
            return list(self._works)

    def end(self):
        """No more looking."""
        self._stop.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(1)

    def _run(self):
        self._engine.enter_thread()
        while not self._stop.wait(_LOOK) and self._engine.broken is None:
            trouble = self._trouble()
            if trouble and not self._stop.is_set():
                self._engine.fail(trouble)
        if self._engine.broken is not None:
            for work in self.under_way():
                work.finish(DistBackendError(self._engine.broken))

    def _trouble(self):
        """The text of what has failed, or None."""
        for work in self.under_way():
            if work.event.query():
                with self._lock:
                    self._works.remove(work)
                work.finish()
            elif time.monotonic() > work.deadline:
                return self._told(f"{work.where}: timed out after {work.seconds:g} seconds")
        try:
            trouble = self._engine.trouble()
            if trouble:
                return self._told(f"{self._engine.last}: {trouble}")
        except DistBackendError:
            return None  # it has ended meanwhile
        return self._elsewhere()

    def _elsewhere(self):
        """What another rank has failed with."""
        if time.monotonic() < self._asked + _ASK:
            return None
        self._asked = time.monotonic()
        try:
            if not self._store.check(["failed"]):
                return None
            self._say()
            return self._verdict()
        except DistError:  # of rank 0, which has ended
            return f"{self._engine.last}: the process that keeps the store has ended" if self.under_way() else None

    def _say(self):
        self._store.set(f"at{self._engine.rank}", self._engine.last)

    def _verdict(self):
        self._store.wait(["verdict"], 3 * _ANSWER)
        return self._store.get("verdict").decode()

    def _told(self, text):
        """The text with what all ranks were doing, the same for all of them."""
        try:
            self._say()
            if self._store.add("failed", 1) > 1:
                return self._verdict()
            text += self._others()
            self._store.set("verdict", text)
        except DistError:
            text += "; the process that keeps the store has ended"
        return text

    def _others(self):
        end, engine = time.monotonic() + _ANSWER, self._engine
        others = [r for r in range(engine.size) if r != engine.rank]
        while time.monotonic() < end and not self._store.check([f"at{r}" for r in others]):
            time.sleep(_LOOK)
        text = ""
        for r in others:
            here = self._store.check([f"at{r}"])
            at = self._store.get(f"at{r}").decode() if here else "gives no sign"
            if at != engine.last:
                text += f"; rank {r} {at if not here else f'is at {at}'}"
        return text
