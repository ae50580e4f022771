"""Worker processes: starting them, hearing from them, noticing that one died, ending them."""

import multiprocessing
import os
import select
import time
from multiprocessing import connection

from .channel import channel
from .failure import ended, memory_text, unpacked, whereabouts, whereabouts_of
from .fetch import FIELDS, PEAK, STOP, TASK
from .heap import snapshot
from .parcel import Inbox, Segment, new_file
from .worker import run

_GRACE = 5.0  # seconds for a worker to end its sample
_LOOK = 0.5  # seconds between looks whether all are alive, should the end of a channel not be noticed


class _Worker:
    """One worker process as the main process sees it."""

    def __init__(self, number, context, plan, base_seed, found):
        self.number, self.inbox, self.tasks = number, Inbox(), {}
        self.end, other = channel()
        fd = new_file(8 * FIELDS)
        self.board = Segment(0, fd, 8 * FIELDS).memory.cast("q")
        self.board[TASK] = -1
        method = context.get_start_method()
        try:
            self.process = context.Process(target=run, args=(other, plan, number, base_seed, method, found),
                                           daemon=True)
            self.process.start()
            self.end.send(("board",), (fd,))
        except BaseException:
            self.end.close()
            raise
        finally:
            other.close()
            os.close(fd)

    def send(self, *message):
        """A message to the worker."""
        self.end.send(message)

    def obituary(self):
        """What is said when it died."""
        self.process.join(_LOOK)
        code = self.process.exitcode
        text = f"DataLoader: worker {self.number} (pid {self.process.pid}) {ended(code)} {whereabouts_of(self)}. " \
               f"{memory_text(self.board[PEAK])}"
        if code == -9:
            text += " Linux ends a process with SIGKILL when memory runs out: fewer workers, a smaller " \
                    "prefetch_factor or smaller batches need less."
        elif code is not None and code < 0:
            text += " num_workers=0 shows the error in the main process."
        return text


class Processes:
    """The worker processes of a loader."""

    def __init__(self, plan, base_seed, context):
        self.pid, self.base_seed, self.workers, self.closed = os.getpid(), base_seed, [], False
        found = snapshot(context.get_start_method(), plan.dataset, plan.collate_fn, plan.worker_init_fn)
        try:
            for number in range(plan.num_workers):
                self.workers.append(_Worker(number, context, plan, base_seed, found))
        except BaseException:
            self.close(grace=0)
            raise
        finally:
            if found is not None:
                found.close()
        self.epoch = 0
        self._by_descriptor = {}
        for worker in self.workers:
            self._by_descriptor[worker.end.fileno()] = worker
            self._by_descriptor[worker.process.sentinel] = worker
        self._poll = select.poll()
        for descriptor in self._by_descriptor:
            self._poll.register(descriptor, select.POLLIN)

    def begin(self, base_seed, pipe_epoch):
        """A new pass: what workers still send for an older one is dropped. Returns its number."""
        self.epoch += 1
        for worker in self.workers:
            worker.tasks.clear()
            worker.send("epoch", self.epoch, base_seed, pipe_epoch)
        return self.epoch

    def send(self, number, task, indices, skipped=False):
        """Asks worker `number` for batch `task`."""
        worker = self.workers[number]
        worker.tasks[task] = indices
        worker.send("load", self.epoch, task, indices, worker.inbox.freed(), skipped)

    def load_of(self, number):
        """How many batches a worker has been asked for and has not sent."""
        return len(self.workers[number].tasks)

    def receive(self, timeout):
        """[(kind, task, what came)] from all workers; waits at most `timeout` seconds (None: until something comes).

        RuntimeError where a worker died.
        """
        limit = None if timeout is None else time.monotonic() + timeout
        while True:
            for worker in self.workers:
                self._poll.modify(worker.end.fileno(), worker.end.events())
            left = _LOOK if limit is None else min(_LOOK, max(limit - time.monotonic(), 0))
            ready = {self._by_descriptor[fd].number for fd, _ in self._poll.poll(left * 1000)}
            found = [message for number in sorted(ready) for message in self._read(self.workers[number])]
            if found or (limit is not None and time.monotonic() >= limit):
                return found
            if not ready:
                for worker in self.workers:
                    if not worker.process.is_alive():
                        self._died(worker)

    def _read(self, worker):
        found = []
        worker.end.flush()
        try:
            while (received := worker.end.receive()) is not None:
                (kind, *message), fds = received
                if kind == "init":
                    return [("init", None, unpacked(message[0]))]
                epoch, task, what = message
                if kind == "batch":  # of an older pass too: its segments must be known
                    try:
                        what = worker.inbox.unpack(what, fds)
                    except Exception as error:
                        kind, what = "error", error
                elif kind == "error":
                    what = unpacked(what)
                if epoch == self.epoch:
                    worker.tasks.pop(task, None)
                    found.append((kind, task, what))
        except EOFError:
            if not found:
                self._died(worker)
        return found

    def _died(self, worker):
        text = worker.obituary()
        self.close()
        raise RuntimeError(text)

    def stuck(self):
        """Where each worker that has something to do is, in words."""
        return whereabouts(self.workers)

    def close(self, grace=_GRACE):
        """Ends all workers: they may end their sample within `grace` seconds, then they are ended by signals."""
        if self.closed or self.pid != os.getpid():
            return
        self.closed = True
        for worker in self.workers:
            worker.board[STOP] = 1
            worker.end.close()
        _wait(self.workers, grace)
        for end in ("terminate", "kill"):
            for worker in self.workers:
                if worker.process.is_alive():
                    getattr(worker.process, end)()
            _wait(self.workers, 1.0 if end == "terminate" else _GRACE)
        for worker in self.workers:
            if not worker.process.is_alive():
                worker.process.close()


def _wait(workers, seconds):
    limit = time.monotonic() + seconds
    left = {worker.process.sentinel: worker.process for worker in workers if worker.process.is_alive()}
    while left and (remaining := limit - time.monotonic()) > 0:
        for sentinel in connection.wait(list(left), remaining):
            left.pop(sentinel).join(1.0)


def context_of(option):
    """The multiprocessing context that the option of the loader names."""
    if option is None or isinstance(option, str):
        return multiprocessing.get_context(option)
    return option
