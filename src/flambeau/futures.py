"""Futures: results that are still being computed."""

import threading
import types
from concurrent.futures import Future as _Base
from concurrent.futures import InvalidStateError


class Future:
    """A value that is set once, and what happens then.

    >>> import flambeau
    >>> future = flambeau.futures.Future()
    >>> later = future.then(lambda f: f.wait() + 1)
    >>> future.set_result(1)
    >>> later.wait()
    2
    """

    def __init__(self, *, devices=None):
        if devices:
            raise RuntimeError(f"Future: devices {devices} are not available in this build; leave devices out")
        self._future = _Base()

    __class_getitem__ = classmethod(types.GenericAlias)

    def done(self):
        """Whether the value, or an exception, is there."""
        return self._future.done()

    def wait(self):
        """The value, when it is there; raises the exception that was set instead."""
        return self._future.result()

    def value(self):
        """The value, which must be there."""
        if not self.done():
            raise RuntimeError("Future.value: the value is not there yet; wait() waits for it")
        return self._future.result()

    def set_result(self, result):
        """Sets the value: once."""
        try:
            self._future.set_result(result)
        except InvalidStateError:
            raise RuntimeError("Future.set_result: this future has a result or an exception already") from None

    def set_exception(self, result):
        """Sets an exception in the value's place."""
        if not isinstance(result, BaseException):
            raise AssertionError(f"Future.set_exception: expected an exception, got {type(result).__name__}")
        try:
            self._future.set_exception(result)
        except InvalidStateError:
            raise RuntimeError("Future.set_exception: this future has a result or an exception already") from None

    def add_done_callback(self, callback):
        """Calls `callback(self)` when the value is there (at once, if it is)."""
        _check("add_done_callback", callback)
        self._future.add_done_callback(lambda _: callback(self))

    def then(self, callback):
        """A Future of `callback(self)`, called when the value is there.

        What the callback raises is raised by `wait` as the cause of a RuntimeError.
        """
        _check("then", callback)
        result = Future()

        def run(_):
            try:
                result.set_result(callback(self))
            except BaseException as error:
                failed = RuntimeError(f"Future.then: the callback raised {type(error).__name__}: {error}")
                failed.__cause__ = error
                result.set_exception(failed)

        self._future.add_done_callback(run)
        return result

    def __reduce__(self):
        raise RuntimeError("Future: a value that is still being computed cannot be pickled; wait() for it first")


def _check(name, callback):
    if not callable(callback):
        raise TypeError(f"Future.{name}: the callback must be a function of the future, got {type(callback).__name__}")


def collect_all(futures):
    """A Future of the list of these futures, once all are done."""
    futures = list(futures)
    for future in futures:
        if not isinstance(future, Future):
            raise RuntimeError(f"collect_all: each of the futures must be a Future, got {type(future).__name__}")
    result, lock, left = Future(), threading.Lock(), [len(futures)]
    if not futures:
        result.set_result(futures)

    def one_done(_):
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            result.set_result(futures)

    for future in futures:
        future.add_done_callback(one_done)
    return result


def wait_all(futures):
    """The values of all, in order; raises the exception of the first that has one."""
    return [future.wait() for future in collect_all(futures).wait()]
