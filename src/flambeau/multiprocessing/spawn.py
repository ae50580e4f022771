"""Several processes that run one function, and what is raised when one of them fails."""

import contextlib
import multiprocessing as standard
import os
import signal
import sys
import threading
import time
import traceback
from multiprocessing import connection

_GRACE = 30.0  # seconds from being asked to end to being ended
_ORPHAN = 2.0  # seconds that a process without parent has to end by itself


class ProcessException(Exception):
    """A process failed; `error_index` and `pid` say which."""

    def __init__(self, msg, error_index, error_pid):
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, error_pid

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """A process raised an exception: its traceback is in the text."""


class ProcessExitedException(ProcessException):
    """A process ended by a signal (`signal_name`) or with an exit code other than 0 (`exit_code`)."""

    def __init__(self, msg, error_index, error_pid, exit_code, signal_name=None):
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


# --- in the process ---------------------------------------------------------------------------------------------------

def _run(function, rank, args, errors):
    threading.Thread(target=_end_with_parent, name="flambeau-parent", daemon=True).start()
    try:
        function(rank, *args)
    except KeyboardInterrupt:  # whoever interrupts this process interrupts its parent, too
        pass
    except Exception:
        errors.send(traceback.format_exc())
        sys.exit(1)


def _end_with_parent():
    """A process whose parent was killed has nobody to work for: it is interrupted, and ended if that does not help."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    connection.wait([standard.parent_process().sentinel])
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(_ORPHAN)
    os._exit(1)


# --- in its parent ----------------------------------------------------------------------------------------------------

class ProcessContext:
    """The processes of one `start_processes`; `join` waits for them."""

    def __init__(self, processes, errors):
        self.processes, self.errors = processes, errors
        self.sentinels = {process.sentinel: index for index, process in enumerate(processes)}
        self._texts = {}  # index -> what the process said about its exception

    def pids(self):
        """Their process numbers."""
        return [process.pid for process in self.processes]

    def join(self, timeout=None, grace_period=None):
        """Waits until one ends, or for `timeout` seconds; True when all have ended.

        Where one failed, the others have `grace_period` seconds to end by themselves and as many to end when asked to
        (none and 30 without it); then they are killed, and an exception says what happened to the first.
        """
        if not self.sentinels:
            return True
        failed = next((index for index in self._ended(timeout) if self.processes[index].exitcode), None)
        if failed is None:
            return not self.sentinels
        if grace_period is not None:
            self._wait_for_all(grace_period)
        for end, seconds in (("terminate", _GRACE if grace_period is None else grace_period), ("kill", _GRACE)):
            for process in self.processes:
                if process.is_alive():
                    getattr(process, end)()
            self._wait_for_all(seconds)
        self._raise(failed)

    def _ended(self, timeout):
        """Indices of processes that have ended since the last call, waiting for one at least."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if end is None else max(0.0, end - time.monotonic())
            open_ends = [pipe for pipe in self.errors if not pipe.closed]
            ready = connection.wait([*self.sentinels, *open_ends], left)
            for pipe in open_ends:  # read while the process lives: it waits until a long text is taken
                if pipe in ready:
                    self._hear(pipe)
            indices = [self.sentinels.pop(one) for one in ready if one in self.sentinels]
            for index in indices:
                self.processes[index].join()
            if indices or not ready:
                return indices

    def _hear(self, pipe):
        with contextlib.suppress(EOFError, OSError):  # it may have ended, having nothing to say
            self._texts[self.errors.index(pipe)] = pipe.recv()
        pipe.close()

    def _wait_for_all(self, seconds):
        end = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0.0, end - time.monotonic()))

    def _raise(self, index):
        process, pipe = self.processes[index], self.errors[index]
        if not pipe.closed and pipe.poll():
            self._hear(pipe)
        if index in self._texts:
            raise ProcessRaisedException(f"process {index} ended with an exception:\n\n{self._texts[index]}", index,
                                         process.pid)
        code = process.exitcode
        name = signal.Signals(-code).name if code < 0 else None
        how = f"was ended by signal {name}" if name else f"ended with exit code {code}"
        raise ProcessExitedException(f"process {index} {how}", index, process.pid, code, name)


class SpawnContext(ProcessContext):
    """What `spawn` returns with join=False."""


def _started(kind, fn, args, nprocs, daemon, start_method):
    context = standard.get_context(start_method)
    processes, errors = [], []
    try:
        for rank in range(nprocs):
            reader, writer = context.Pipe(duplex=False)
            process = context.Process(target=_run, args=(fn, rank, args, writer), daemon=daemon)
            process.start()
            writer.close()  # the process has its own
            processes.append(process)
            errors.append(reader)
    except BaseException:
        for process in processes:
            process.kill()
        raise
    return kind(processes, errors)


def _joined(running, join):
    if not join:
        return running
    while not running.join():
        pass
    return None


def start_processes(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Runs `fn(i, *args)` in `nprocs` processes, i from 0; waits, unless join=False, which returns a ProcessContext.

    A process whose parent is killed ends as well.

    >>> import flambeau.multiprocessing as mp
    >>> mp.start_processes(divmod, args=(7,), nprocs=2, start_method="fork")  # divmod(0, 7) and divmod(1, 7)
    """
    return _joined(_started(ProcessContext, fn, args, nprocs, daemon, start_method), join)


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """`start_processes` in fresh interpreters; with join=False a SpawnContext. `fn` must be importable by its name.

    >>> import flambeau.multiprocessing as mp
    >>> context = mp.spawn(abs, nprocs=2, join=False)
    >>> while not context.join():
    ...     pass
    """
    return _joined(_started(SpawnContext, fn, args, nprocs, daemon, start_method), join)
