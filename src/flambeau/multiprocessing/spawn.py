"""Several processes that run one function, and what is raised when one of them fails."""

import multiprocessing as standard
import signal
import sys
import traceback
from multiprocessing import connection


class ProcessException(Exception):
    """A process failed; `error_index` and `error_pid` say which."""

    def __init__(self, msg, error_index, pid):
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """A process raised an exception: its traceback is in the text."""


class ProcessExitedException(ProcessException):
    """A process ended by a signal or with an exit code."""

    def __init__(self, msg, error_index, error_pid, exit_code, signal_name=None):
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _run(function, rank, args, errors):
    try:
        function(rank, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        errors.put(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """The processes of one `start_processes`; `join` waits for them."""

    def __init__(self, processes, errors):
        self.processes, self.errors = processes, errors
        self.sentinels = {process.sentinel: index for index, process in enumerate(processes)}

    def pids(self):
        """Their process numbers."""
        return [process.pid for process in self.processes]

    def join(self, timeout=None, grace_period=None):
        """Waits until one ends; True when all have. Where one failed, ends the others and raises an exception."""
        if not self.sentinels:
            return True
        failed = None
        for sentinel in connection.wait(self.sentinels.keys(), timeout=timeout):
            index = self.sentinels.pop(sentinel)
            self.processes[index].join()
            if self.processes[index].exitcode != 0 and failed is None:
                failed = index
        if failed is None:
            return not self.sentinels
        for process in self.processes:
            if process.is_alive():
                process.terminate()
            process.join(grace_period)
            if process.is_alive():
                process.kill()
                process.join()
        self._raise(failed)

    def _raise(self, index):
        process = self.processes[index]
        if not self.errors[index].empty():
            text = self.errors[index].get()
            raise ProcessRaisedException(f"process {index} ended with an exception:\n\n{text}", index,
                                         process.pid)
        code = process.exitcode
        name = signal.Signals(-code).name if code < 0 else None
        how = f"with signal {name}" if name else f"with exit code {code}"
        raise ProcessExitedException(f"process {index} terminated {how}", index, process.pid, code, name)


SpawnContext = ProcessContext


def start_processes(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Runs `fn(i, *args)` in `nprocs` processes, i from 0; waits, unless join=False, which returns a context."""
    context = standard.get_context(start_method)
    processes, errors = [], []
    for rank in range(nprocs):
        queue = context.SimpleQueue()
        process = context.Process(target=_run, args=(fn, rank, args, queue), daemon=daemon)
        process.start()
        processes.append(process)
        errors.append(queue)
    running = ProcessContext(processes, errors)
    if not join:
        return running
    while not running.join():
        pass
    return None


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """`start_processes` with fresh interpreters."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)
