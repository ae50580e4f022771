"""Errors of processes, as files that whoever has started them reads: `record` writes one, ChildFailedError tells it."""

import faulthandler
import functools
import json
import os
import signal
import time
import traceback
from dataclasses import dataclass, field
from datetime import datetime

#: where a process that a launcher has started writes its error
ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
_NONE = "<N/A>"
_RULE = "-" * 60


class ErrorHandler:
    """Writes the error of this process to the file that the environment names."""

    def initialize(self):
        """Before the program: has crashes print where they were."""
        faulthandler.enable(all_threads=True)

    def record_exception(self, e):
        """Writes an exception: its text, its stack, the time."""
        stack = "".join(traceback.format_exception(e))
        self._write({"message": {"message": f"{type(e).__name__}: {e}",
                                 "extraInfo": {"py_callstack": stack, "timestamp": str(int(time.time()))}}})

    def dump_error_file(self, rootcause_error_file, error_code=0):
        """Hands on the error of a process that this one has started, with its exit code."""
        with open(rootcause_error_file) as file:
            found = json.load(file)
        if isinstance(found.get("message"), dict):
            found["message"]["errorCode"] = error_code
        self._write(found)

    def _write(self, content):
        path = os.environ.get(ERROR_FILE)
        if path:
            with open(path, "w") as file:
                json.dump(content, file)


def get_error_handler():
    """The ErrorHandler of this process."""
    return ErrorHandler()


@dataclass
class ProcessFailure:
    """A process that has failed: which, its exit code (negative: the signal), and the file with its error."""

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    error_file_data: dict = field(init=False)
    message: object = field(init=False)
    timestamp: int = field(init=False)

    def __post_init__(self):
        self.error_file_data, self.timestamp = {"message": "<NONE>"}, int(time.time())
        try:
            with open(self.error_file) as file:
                self.error_file_data = json.load(file)
            self.message = self.error_file_data["message"]
            self.timestamp = int(self.message["extraInfo"]["timestamp"])
        except (OSError, ValueError, KeyError, TypeError):
            self.error_file = _NONE
            self.message = (f"process {self.pid} was ended by {self.signal_name()}" if self.exitcode < 0 else
                            f"process {self.pid} ended with exit code {self.exitcode}; decorate its main function with "
                            "distributed.elastic.multiprocessing.errors.record to see the error here")

    def text(self):
        """The error in one line."""
        return self.message["message"] if isinstance(self.message, dict) else self.message

    def signal_name(self):
        """SIGKILL or the like, where a signal ended it."""
        return signal.Signals(-self.exitcode).name if self.exitcode < 0 else _NONE

    def timestamp_isoformat(self):
        """When it failed."""
        return datetime.fromtimestamp(self.timestamp).isoformat(sep="_")


class ChildFailedError(Exception):
    """Processes that this one has started have failed. `failures` are by rank; the first of them is told in full."""

    def __init__(self, name, failures):
        if not failures:
            raise AssertionError("ChildFailedError: expected at least one failure")
        self.name, self.failures = name, failures
        super().__init__(self.format_msg())

    def get_first_failure(self):
        """(rank, failure) of the one that came first."""
        return min(self.failures.items(), key=lambda pair: pair[1].timestamp)

    def format_msg(self):
        """What has happened, in words."""
        rank, first = self.get_first_failure()
        lines = [f"{self.name}: rank {rank} (local rank {first.local_rank}, process {first.pid}) failed at "
                 f"{first.timestamp_isoformat()}, exit code {first.exitcode}", _RULE]
        info = first.message.get("extraInfo", {}) if isinstance(first.message, dict) else {}
        lines += [str(info.get("py_callstack", first.text())).rstrip(), _RULE]
        lines += [f"rank {other}: {failure.text()}" for other, failure in self.failures.items() if other != rank]
        return "\n".join(lines)


def record(fn, error_handler=None):
    """Decorator for a program's main function: its error is written to the file that the launcher asks for.

    Outside of a launcher nothing is written. `sys.exit(0)` in it returns None.

    >>> from flambeau.distributed.elastic.multiprocessing.errors import record
    >>> @record
    ... def main():
    ...     return 3
    >>> main()
    3
    """
    handler = error_handler or get_error_handler()

    @functools.wraps(fn)
    def recorded(*args, **kwargs):
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as end:
            if end.code in (0, None):
                return None
            raise
        except ChildFailedError as error:
            _, failure = error.get_first_failure()
            if failure.error_file != _NONE:
                handler.dump_error_file(failure.error_file, failure.exitcode)
            raise
        except Exception as error:
            handler.record_exception(error)
            raise

    return recorded
