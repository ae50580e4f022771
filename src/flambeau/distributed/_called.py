"""The processes of one launch that call a function: started together, watched, ended together, with their results."""

import contextlib
import multiprocessing
import os
import signal
import sys
import time
from multiprocessing.connection import wait

from ._workers import Failure, dies_with_parent
from .elastic.multiprocessing.errors import record


def _serve(function, args, environment, pipe, files):
    os.setsid()  # signals reach what it starts, too
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):  # a fork has the launcher's
        signal.signal(number, signal.SIG_DFL)
    dies_with_parent()
    os.environ.clear()
    os.environ.update(environment)
    for stream, path in files.items():
        with open(path, "wb") as file:
            os.dup2(file.fileno(), stream)
        setattr(sys, {1: "stdout", 2: "stderr"}[stream], open(stream, "w", buffering=1, closefd=False))  # noqa: SIM115
    pipe.recv()  # a fork must not happen while the launcher's store answers one of us: its threads may hold locks
    result = record(function)(*args)
    sys.stdout.flush()
    pipe.send(result)


class Called:
    """One attempt: as many processes as `environments`. `files`: for each, {1 or 2: the file of that stream}."""

    def __init__(self, function, args, environments, method, files):
        context = multiprocessing.get_context(method)
        self._processes, self._pipes, self.results = {}, {}, {}
        try:
            for environment, places in zip(environments, files):
                mine, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(function, args, environment, theirs, places))
                process.start()
                theirs.close()
                rank = int(environment["RANK"])
                self._processes[rank], self._pipes[rank] = process, mine
            for pipe in self._pipes.values():
                with contextlib.suppress(BrokenPipeError):  # of one that has ended already
                    pipe.send("all are there")
        except BaseException:
            self.end(signal.SIGKILL, 0)
            raise

    def watch(self):
        """Waits until all have ended well: None; or until one fails: its Failure."""
        running, listening = dict(self._processes), dict(self._pipes)
        while running:
            ready = wait([*(p.sentinel for p in running.values()), *listening.values()])
            for rank in [rank for rank, pipe in listening.items() if pipe in ready]:
                with contextlib.suppress(EOFError, ConnectionError):
                    self.results[rank] = listening[rank].recv()
                del listening[rank]
            for rank in [rank for rank, process in running.items() if process.sentinel in ready]:
                process = running.pop(rank)
                process.join()
                if process.exitcode:
                    return Failure(rank, process.pid, process.exitcode)
        return None

    def ranks(self):
        """Their ranks."""
        return list(self._processes)

    def end(self, number=signal.SIGTERM, grace=10.0):
        """Sends a signal to all, and ends those that live on after `grace` seconds."""
        self._signal(number)
        until = time.monotonic() + grace
        for process in self._processes.values():
            process.join(max(0.0, until - time.monotonic()))
        self._signal(signal.SIGKILL)
        for process in self._processes.values():
            process.join()
        for pipe in self._pipes.values():
            pipe.close()

    def _signal(self, number):
        for process in self._processes.values():
            for send in (os.killpg, os.kill):  # before it has a group of its own, the process alone
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    send(process.pid, number)
                    break
