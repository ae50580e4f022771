"""A pool of ranks for tests: processes that are in one process group and run functions for the test."""

import contextlib
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
import traceback
from datetime import timedelta

import flambeau
import flambeau.distributed as dist

_CONTEXT = multiprocessing.get_context("fork")
FIRST = 20.0  # seconds that a call may wait in tests that expect no fault


def _serve(rank, size, meet, pipe, timeout):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    flambeau.set_num_threads(1)
    try:
        dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=size,
                                timeout=timedelta(seconds=timeout))
        pipe.send(("ready", None))
        while (task := pipe.recv()) is not None:
            function, args = task
            try:
                pipe.send(("done", function(*args)))
            except Exception as error:
                pipe.send(("raised", (type(error).__name__, str(error), traceback.format_exc())))
    except (EOFError, KeyboardInterrupt):
        pass
    except Exception:
        with contextlib.suppress(OSError):
            pipe.send(("raised", ("", "", traceback.format_exc())))


def free_port():
    store = dist.TCPStore("localhost", 0, is_master=True)
    store.close()
    return store.port


class Ranks:
    """`size` processes; `run` calls a function in all of them and returns their results in order.

    `whole`: all have finished what they were given, and none has failed.
    """

    def __init__(self, size, timeout=FIRST, port=None):
        self.size, self.processes, self.pipes, self.whole = size, [], [], True
        self.place = tempfile.mkdtemp()
        # unless a test asks for one: a port might be taken by other tests that run
        meet = f"tcp://localhost:{port}" if port else f"file://{self.place}/meet"
        for rank in range(size):
            mine, theirs = _CONTEXT.Pipe()
            process = _CONTEXT.Process(target=_serve, args=(rank, size, meet, theirs, timeout), daemon=True)
            process.start()
            theirs.close()
            self.processes.append(process)
            self.pipes.append(mine)
        self.answers(60)

    def begin(self, function, *args):
        self.whole = False
        for pipe in self.pipes:
            pipe.send((function, args))

    def answer(self, rank, seconds=60):
        """("done", result), ("raised", (type, text, traceback)) or ("gone", None)."""
        if not self.pipes[rank].poll(seconds):
            raise TimeoutError(f"rank {rank} has not answered within {seconds} s")
        try:
            return self.pipes[rank].recv()
        except (EOFError, ConnectionError):
            return "gone", None

    def answers(self, seconds=60):
        found = [self.answer(rank, seconds) for rank in range(self.size)]
        for rank, (state, value) in enumerate(found):
            assert state in ("done", "ready"), f"rank {rank}: {value[2] if value else state}"
        self.whole = True
        return [value for _, value in found]

    def run(self, function, *args):
        self.begin(function, *args)
        return self.answers()

    def errors(self, seconds, ranks):
        """The texts of what these ranks raise, each within `seconds`."""
        end, found = time.monotonic() + seconds, []
        for rank in ranks:
            state, value = self.answer(rank, max(0.1, end - time.monotonic()))
            assert state == "raised", f"rank {rank}: {state} {value}"
            found.append(value[1])
        return found

    def leave(self, ranks):
        """These ranks end by themselves."""
        for rank in ranks:
            self.pipes[rank].send(None)
        for rank in ranks:
            self.processes[rank].join(10)
            assert self.processes[rank].exitcode == 0, f"rank {rank}: exit code {self.processes[rank].exitcode}"

    def end(self):
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        for process, pipe in zip(self.processes, self.pipes):
            process.join(10)
            pipe.close()
        shutil.rmtree(self.place, ignore_errors=True)
