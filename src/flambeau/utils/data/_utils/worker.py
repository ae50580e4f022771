"""The worker: what it knows of itself, and the loop in which a worker process loads batches."""

import contextlib
import gc
import multiprocessing
import os
import resource
import select
import signal
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from .... import _C
from . import pipes
from .channel import WorkerEnd
from .failure import packed, place_of
from .fetch import END, FIELDS, PEAK, POSITION, STOP, TASK, Stopped, fetcher
from .freed import keep_freed
from .heap import SharedHeap
from .own_loaders import IterableEnd as _IterableDatasetStopIteration  # noqa: F401
from .own_loaders import ResumeIteration as _ResumeIteration  # noqa: F401
from .own_loaders import Watchdog as ManagerWatchdog  # noqa: F401
from .parcel import Outbox, Segment
from .streams import mixed, seed_streams, seed_worker


def _generate_state(base_seed, worker_id):
    """Four numbers of 32 bits that seed NumPy's generators in a worker: those of its own SeedSequence."""
    import numpy

    words = (worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0)
    return numpy.random.SeedSequence(words).generate_state(4).tolist()


@dataclass
class WorkerInfo:
    """What `get_worker_info` returns in a worker.

    `rng` holds generators for workers that are threads (None in a process, which has default streams of its own).
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any = field(repr=False)
    rng: Any = None
    worker_method: str = "multiprocessing"


_worker_info = None  # the WorkerInfo of this process, if it is a worker
thread = threading.local()  # .info: the WorkerInfo of this thread, if it is a worker


def get_worker_info():
    """In a worker, its `id`, `num_workers`, `seed` and `dataset` (the worker's own copy); None elsewhere.

    >>> from flambeau.utils.data import DataLoader, IterableDataset, get_worker_info
    >>> class Shards(IterableDataset):
    ...     def __iter__(self):
    ...         worker = get_worker_info()
    ...         return iter(range(worker.id, 6, worker.num_workers))
    >>> [batch.tolist() for batch in DataLoader(Shards(), batch_size=2, num_workers=2)]
    [[0, 2], [1, 3], [4], [5]]
    """
    return getattr(thread, "info", None) or _worker_info


@dataclass
class Plan:
    """What a worker needs to know of its loader; for `spawn` and `forkserver` it travels by pickle."""

    dataset: Any
    collate_fn: Any
    drop_last: bool
    _batched: bool
    worker_init_fn: Any
    seeding: str
    num_workers: int
    prefetch_factor: int
    iterable: bool

    def seed_of(self, base_seed, task, worker, count):
        """The seed of a batch: of its number, or of its number in its worker where the worker decides what it is."""
        return mixed(base_seed, count, worker) if self.iterable else mixed(base_seed, task, 0)


def run(end, plan, worker, base_seed, method, found):
    """The main function of worker process `worker`."""
    global _worker_info
    gc.freeze()  # what comes from the parent is never collected here: a collection would copy its pages
    heap = SharedHeap(found, plan.num_workers)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group; the main process decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_follow, args=(end.fileno(), method), daemon=True).start()
    _C.set_num_threads(1)
    keep_freed()
    _worker_info = WorkerInfo(worker, plan.num_workers, base_seed + worker, plan.dataset)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the main process no longer listens
        _Loop(WorkerEnd(end), plan, worker, base_seed, heap).run()


def _follow(fd, method):
    """Ends this process when its parent is gone, whatever it is doing."""
    parent, known = os.getppid(), multiprocessing.parent_process()
    poll = select.poll()
    poll.register(fd, select.POLLHUP)
    while not poll.poll():
        pass
    while (os.getppid() == parent) if method == "fork" else known.is_alive():
        time.sleep(0.1)  # the parent has closed the channel: the loop ends by itself
    os._exit(1)


class _Loop:
    """Loads what it is asked for, until the channel ends."""

    def __init__(self, end, plan, worker, base_seed, heap):
        self.heap = heap
        self.end, self.plan, self.worker, self.base_seed = end, plan, worker, base_seed
        self.outbox = Outbox(plan.prefetch_factor + 1)
        self.epoch = self.fetch = self.count = None

    def run(self):
        _, (fd,) = self.end.receive() or (None, (None,))
        if fd is None:
            return
        self.board = Segment(0, fd, 8 * FIELDS).memory.cast("q")
        os.close(fd)
        try:
            seed_worker(self.base_seed, self.worker)
            if self.plan.worker_init_fn is not None:
                self.plan.worker_init_fn(self.worker)
        except Exception as error:
            self.end.send(("init", packed(error, f"in worker_init_fn of worker {self.worker}")))
            return
        while (received := self.end.receive()) is not None:
            kind, *message = received[0]
            if kind == "epoch":
                self.begin(*message)
            else:
                self.load(*message)
            self.heap.restore()  # now that no sample is referred to

    def begin(self, epoch, base_seed, pipe_epoch):
        """A new pass: the dataset is iterated over from its beginning."""
        pipes.begin_epoch(self.plan.dataset, pipe_epoch, self.plan.num_workers, self.worker)
        self.epoch, self.base_seed, self.fetch, self.count = epoch, base_seed, None, 0

    def load(self, epoch, task, indices, freed, skipped):
        """Sends batch `task`; one that is skipped is loaded only if later ones depend on it."""
        self.outbox.put_back(freed)
        self.board[POSITION], self.board[TASK] = -1, task
        self.board[PEAK] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            batch = self.loaded(task, indices)
            if batch is END:
                answer, fds = ("end", epoch, task, None), ()
            elif skipped:
                answer, fds = ("skipped", epoch, task, None), ()
            else:
                parcel, fds = self.outbox.pack(batch)
                answer = "batch", epoch, task, parcel
        except Stopped:
            return
        except Exception as error:
            where = f"by worker {self.worker} {place_of(task, indices, self.board[POSITION])}"
            answer, fds = ("error", epoch, task, packed(error, where)), ()
        try:
            self.end.send(answer, fds)
        finally:
            for fd in fds:
                os.close(fd)
        self.board[POSITION] = -1

    def loaded(self, task, indices):
        """The batch, or END."""
        seed, self.count = self.plan.seed_of(self.base_seed, task, self.worker, self.count), self.count + 1
        if self.plan.seeding == "batch":
            seed_streams(seed)
        if self.fetch is None:
            self.fetch, _ = fetcher(self.plan, self.board)
        if self.board[STOP]:
            raise Stopped
        return self.fetch(indices)
