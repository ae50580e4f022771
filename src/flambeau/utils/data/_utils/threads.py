"""Worker threads: for datasets that wait for files or networks, or that compute without the interpreter lock."""

import os
import queue
import threading
import time
from dataclasses import replace

from .... import random as _random
from . import pipes
from .failure import place_of, whereabouts
from .fetch import END, FIELDS, POSITION, STOP, TASK, Stopped, fetcher
from .freed import keep_freed
from .streams import WorkerStreams
from .worker import WorkerInfo
from .worker import thread as _this_thread

_GRACE = 5.0


class _Worker:
    """One thread, its queue of tasks, and where it is."""

    def __init__(self, number, plan, base_seed, answers):
        self.number, self.answers, self.asked = number, answers, queue.SimpleQueue()
        self.plan = replace(plan, dataset=pipes.own_copy(plan.dataset))
        self.board, self.tasks = [0] * FIELDS, {}
        self.board[TASK] = -1
        self.base_seed, self.epoch, self.fetch, self.count = base_seed, 0, None, 0
        self.thread = threading.Thread(target=self.run, name=f"DataLoader worker {number}", daemon=True)
        self.thread.start()

    def run(self):
        """Loads what it is asked for until it is asked for nothing."""
        plan, seed = self.plan, self.base_seed + self.number
        streams = WorkerStreams(seed)
        _this_thread.info = WorkerInfo(self.number, plan.num_workers, seed, plan.dataset, streams, "thread")
        _random.worker_thread.generator = streams.torch_generator
        try:
            if plan.worker_init_fn is not None:
                plan.worker_init_fn(self.number)
        except Exception as error:
            error.add_note(f"DataLoader: raised in worker_init_fn of worker {self.number}.")
            self.answers.put(("init", None, None, error))
            return
        while (message := self.asked.get()) is not None:
            if message[0] == "epoch":
                _, self.epoch, self.base_seed, pipe_epoch = message
                pipes.begin_epoch(plan.dataset, pipe_epoch, plan.num_workers, self.number)
                self.fetch, self.count = None, 0
            else:
                self.answers.put(self.answer(streams, *message[1:]))

    def answer(self, streams, task, indices, skipped):
        """(kind, epoch, task, what)."""
        self.board[POSITION], self.board[TASK] = -1, task
        seed, self.count = self.plan.seed_of(self.base_seed, task, self.number, self.count), self.count + 1
        if self.plan.seeding == "batch":
            streams.seed(seed)
        try:
            if self.fetch is None:
                self.fetch, _ = fetcher(self.plan, self.board)
            batch = self.fetch(indices)
        except Stopped:
            return "skipped", self.epoch, task, None
        except Exception as error:
            error.add_note(f"DataLoader: raised by worker {self.number} "
                           f"{place_of(task, indices, self.board[POSITION])}.")
            return "error", self.epoch, task, error
        if batch is END:
            return "end", self.epoch, task, None
        return ("skipped", self.epoch, task, None) if skipped else ("batch", self.epoch, task, batch)


class Threads:
    """The worker threads of a loader; the same methods as `Processes`."""

    def __init__(self, plan, base_seed):
        keep_freed()
        self.pid, self.base_seed, self.closed = os.getpid(), base_seed, False
        self.answers, self.epoch = queue.SimpleQueue(), 0
        self.workers = [_Worker(number, plan, base_seed, self.answers) for number in range(plan.num_workers)]

    def begin(self, base_seed, pipe_epoch):
        """A new pass; returns its number."""
        self.epoch += 1
        for worker in self.workers:
            worker.tasks.clear()
            worker.asked.put(("epoch", self.epoch, base_seed, pipe_epoch))
        return self.epoch

    def send(self, number, task, indices, skipped=False):
        """Asks worker `number` for batch `task`."""
        self.workers[number].tasks[task] = indices
        self.workers[number].asked.put(("load", task, indices, skipped))

    def load_of(self, number):
        """How many batches a worker has been asked for and has not given."""
        return len(self.workers[number].tasks)

    def receive(self, timeout):
        """[(kind, task, what came)]; waits at most `timeout` seconds."""
        limit = None if timeout is None else time.monotonic() + timeout
        found = []
        while not found:
            try:
                answers = [self.answers.get(timeout=None if limit is None else max(limit - time.monotonic(), 0))]
            except queue.Empty:
                return found
            while not self.answers.empty():
                answers.append(self.answers.get())
            for kind, epoch, task, what in answers:
                if kind == "init" or epoch == self.epoch:
                    for worker in self.workers:
                        worker.tasks.pop(task, None)
                    found.append((kind, task, what))
        return found

    def stuck(self):
        """Where each worker that has something to do is, in words."""
        return whereabouts(self.workers)

    def close(self, grace=_GRACE):
        """Asks for nothing more and waits for the samples that are being loaded; a thread cannot be ended."""
        if self.closed:
            return
        self.closed = True
        for worker in self.workers:
            worker.board[STOP] = 1
            worker.asked.put(None)
        limit = time.monotonic() + grace
        for worker in self.workers:
            if worker.thread is not threading.current_thread():
                worker.thread.join(max(limit - time.monotonic(), 0))
