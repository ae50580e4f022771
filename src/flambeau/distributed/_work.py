"""Work: what an exchange that goes on by itself returns, and the thread that carries such exchanges out in order."""

import queue
import threading
from datetime import timedelta

from ..futures import Future
from ._errors import DistBackendError
from ._stores import seconds_of


class Work:
    """An exchange under way; `wait()` returns when it is done and raises what went wrong."""

    def __init__(self, result=None):
        self._done, self._error, self._result = threading.Event(), None, result
        self._future, self._lock = None, threading.Lock()

    def _finish(self, error=None):
        self._error = error
        with self._lock:
            self._done.set()
            future = self._future
        if future is not None:
            self._tell(future)

    def _tell(self, future):
        if self._error is None:
            future.set_result(self._result)
        else:
            future.set_exception(self._error)

    def wait(self, timeout=timedelta(0)):
        """Waits until it is done: True. RuntimeError: it failed, or `timeout` (0: none of its own) is over."""
        seconds = seconds_of(timeout, "Work.wait") if timeout is not None else 0
        if not self._done.wait(seconds if seconds > 0 else None):
            raise DistBackendError(f"Work.wait: not done after {seconds:g} seconds; it goes on")
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self):
        """Whether it is done, or has failed."""
        return self._done.is_set()

    def is_success(self):
        """Whether it is done and has not failed."""
        return self._done.is_set() and self._error is None

    def exception(self):
        """What went wrong; None where nothing did."""
        return self._error

    def result(self):
        """The tensors with the results."""
        self.wait()
        return self._result

    def source_rank(self):
        """The rank a message came from."""
        raise RuntimeError("Work.source_rank: only what irecv() returns has one")

    def synchronize(self):
        """`wait()`: there is no stream that could wait instead."""
        self.wait()

    def get_future(self):
        """A Future with the list of the tensors with the results."""
        with self._lock:
            if self._future is not None:
                return self._future
            future = self._future = Future()
            done = self._done.is_set()
        if done:
            self._tell(future)
        return future


class Worker:
    """A thread that runs one function after the other; it begins with the first and never ends by itself."""

    def __init__(self, name):
        self._name, self._queue, self._thread = name, queue.SimpleQueue(), None
        self._lock, self._left = threading.Lock(), 0

    @property
    def busy(self):
        """Whether there is something that is not done yet."""
        return self._left > 0

    def put(self, function, work):
        """Runs the function later, and finishes `work` then."""
        with self._lock:
            self._left += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        self._queue.put((function, work))
        return work

    def _run(self):
        while (item := self._queue.get()) is not None:
            function, work = item
            try:
                function()
                error = None
            except BaseException as caught:
                error = caught
            with self._lock:
                self._left -= 1
            work._finish(error)
            del item, function, work, error  # tensors are not kept until the next one

    def end(self):
        """Ends the thread when everything is done."""
        if self._thread is not None:
            self._queue.put(None)
            if threading.current_thread() is not self._thread:
                self._thread.join(1)
            self._thread = None
