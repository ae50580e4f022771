"""The processes of one launch: started together, watched, ended together, and started anew when one fails."""

import contextlib
import ctypes
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from .._shown import clipped

_LONGEST = 500  # characters of a worker's error that are told
_GRACE = 10.0  # seconds from being asked to end to being ended
_PDEATHSIG = 1  # of prctl: the signal that comes when the parent ends


class Interrupted(Exception):
    """The launcher was asked to end, by this signal."""

    def __init__(self, number):
        super().__init__(number)
        self.number = number


class Failure:
    """A worker that did not end well."""

    def __init__(self, rank, pid, code, error_file=None):
        self.rank, self.pid, self.code = rank, pid, code
        self.error = _error_in(error_file)

    def __str__(self):
        how = f"was ended by {signal.Signals(-self.code).name}" if self.code < 0 else f"ended with code {self.code}"
        return f"rank {self.rank} (process {self.pid}) {how}{f': {self.error}' if self.error else ''}"

    @property
    def exit_code(self):
        """What a shell would say."""
        return 128 - self.code if self.code < 0 else self.code


def _error_in(path):
    """The error that a worker has written down, in one line; None where it has not."""
    try:
        with open(path) as file:
            return clipped(" ".join(json.load(file)["message"]["message"].split()), _LONGEST)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _prctl():
    """Run in a new worker: it is ended when the launcher is killed."""
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        return lambda: library.prctl(_PDEATHSIG, signal.SIGTERM)
    return None


def dies_with_parent():
    """Has this process be ended when the one that has started it is killed."""
    call = _prctl()
    if call is not None:
        call()


class Workers:
    """One attempt: as many processes as `environments`, each with its own variables.

    logs: a folder for what they print, or None. show: by worker, whether that is printed here, too.
    """

    def __init__(self, command, environments, logs=None, files=(), show=()):
        self._processes, self._threads, self._lock = [], [], threading.Lock()
        self._error_files = {}
        before = _prctl()
        try:
            for index, environment in enumerate(environments):
                streams = [self._stream(logs, index, k, files, show) for k in (0, 1)]
                process = subprocess.Popen(command, env=environment, start_new_session=True, preexec_fn=before,
                                           stdout=streams[0][0], stderr=streams[1][0])
                self._processes.append((int(environment["RANK"]), process))
                self._error_files[int(environment["RANK"])] = environment.get("TORCHELASTIC_ERROR_FILE")
                for k, pipe in enumerate((process.stdout, process.stderr)):
                    self._follow(pipe, streams[k][1], index, k)
        except BaseException:
            self.end(signal.SIGKILL, 0)
            raise

    @staticmethod
    def _stream(logs, index, k, files, show):
        """(what the process gets, the file of its log): bit k of `files` says whether there is one."""
        if logs is None or not files[index] >> k & 1:
            return (None, None) if not show or show[index] >> k & 1 else (subprocess.DEVNULL, None)
        folder = Path(logs) / str(index)
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ("stderr.log" if k else "stdout.log")).open("wb")
        return (subprocess.PIPE, file) if show[index] >> k & 1 else (file, file)

    def _follow(self, pipe, file, index, k):
        if pipe is None:
            if file is not None:
                file.close()
            return
        out = (sys.stderr if k else sys.stdout).buffer
        thread = threading.Thread(target=self._copy, args=(pipe, file, out, f"[{index}] ".encode()), daemon=True)
        thread.start()
        self._threads.append(thread)

    def _copy(self, pipe, file, out, prefix):
        with pipe, file:
            for line in pipe:
                file.write(line)
                file.flush()
                with self._lock, contextlib.suppress(ValueError, OSError):
                    out.write(prefix + line)
                    out.flush()

    def watch(self):
        """Waits until all have ended well: None; or until one fails: the others are ended, and the Failure returned."""
        with selectors.DefaultSelector() as ready:
            for rank, process in self._processes:
                ready.register(os.pidfd_open(process.pid), selectors.EVENT_READ, (rank, process))
            try:
                return self._first_failure(ready)
            finally:
                for key in list(ready.get_map().values()):
                    os.close(key.fd)

    def _first_failure(self, ready):
        left = len(self._processes)
        while left:
            for key, _ in ready.select():
                rank, process = key.data
                ready.unregister(key.fd)
                os.close(key.fd)
                left -= 1
                if process.wait():
                    return Failure(rank, process.pid, process.returncode, self._error_files[rank])
        return None

    def ranks(self):
        """Their ranks."""
        return [rank for rank, _ in self._processes]

    def end(self, number=signal.SIGTERM, grace=_GRACE):
        """Sends a signal to all and what they have started, and ends those that live on after `grace` seconds."""
        self._signal(number)
        until = time.monotonic() + grace
        for _, process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until - time.monotonic()))
        self._signal(signal.SIGKILL)
        for _, process in self._processes:
            process.wait()
        for thread in self._threads:
            thread.join(1)

    def _signal(self, number):
        for _, process in self._processes:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)


@contextlib.contextmanager
def signals_raise():
    """Within it, SIGINT, SIGTERM and SIGHUP raise Interrupted; the second one ends this process as usual."""
    def handle(number, frame):
        signal.signal(number, signal.SIG_DFL)
        raise Interrupted(number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    main = threading.current_thread() is threading.main_thread()
    before = [(number, signal.signal(number, handle)) for number in numbers] if main else []
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
