"""Passes over a loader's batches: in the main process, or by workers that load ahead."""

import math
import time
import weakref
from itertools import cycle, islice
from warnings import warn

from ... import _C
from ._utils import pipes
from ._utils.fetch import END, fetcher
from ._utils.freed import keep_freed
from ._utils.pin_memory import pin_memory
from ._utils.streams import Lent, mixed
from .sampler import fresh_seed
from .state import Progress, numbered_batches

_clock = time.perf_counter


def _not_the_end(error):
    """Of a StopIteration that would end the pass as if nothing had happened."""
    return RuntimeError(f"DataLoader: the dataset or collate_fn raised StopIteration({error}); an IterableDataset ends "
                        "by returning from __iter__, other datasets by their length")


def _base_seed(loader):
    """Drawn with workers and without, so that the default stream does not depend on them.

    Only where all seeds shall be PyTorch's, workers that go on from an earlier pass keep theirs.
    """
    running = loader._running_workers() if loader.seeding == "worker" else None
    return fresh_seed(loader.generator) if running is None else running.base_seed


def _begun(loader):
    """The progress of a new pass, with the seeds that it draws."""
    pipe_seed = pipes.epoch_seed(loader)
    starting = loader.num_workers and loader._running_workers() is None
    progress = Progress(_base_seed(loader), pipe_seed)
    if pipe_seed is not None and loader.seeding == "worker" and starting:
        pipes.epoch_seed(loader)  # PyTorch draws it again, and does not use it, when workers start
    return progress


class Pass:
    """One pass over a loader's batches."""

    def __init__(self, loader, progress):
        self._loader = loader
        self.progress = progress or _begun(loader)
        self._length = loader.__len__
        self._batches = None
        self._count, self._told = 0, math.inf if loader._told is None else loader._told

    def __iter__(self):
        return self

    def __len__(self):
        return self._length()

    def __next__(self):
        """The next batch; the time that it took is `waited` for."""
        start, progress = _clock(), self.progress
        if progress.begun is None:
            progress.begun = start
        try:
            batch = self._next()
            if self._loader.pin_memory and _C._cuda.available():
                batch = pin_memory(batch)
            self._count += 1
            if self._count == self._told + 1:
                self._warn_of_length()
            return batch
        finally:
            progress.until = _clock()
            progress.waited += progress.until - start

    def _warn_of_length(self):
        warn(f"DataLoader: the dataset ({type(self._loader.dataset).__name__}) has given {self._count} batches, but "
             f"its length is {self._told} batches; where each worker gives all samples, let it take a share of them "
             "(get_worker_info)", UserWarning, stacklevel=4)

    def _drawn(self):
        """(number, indices) of the next batch to load, or None."""
        if self._batches is None:
            self._batches = numbered_batches(self._loader, self.progress)
        return next(self._batches, None)

    def _finish(self):
        self.progress.finished = True
        raise StopIteration


class SerialPass(Pass):
    """Loads each batch when it is asked for."""

    def __init__(self, loader, progress):
        super().__init__(loader, progress)
        self._fetch, self._pure = None, False
        self._lent = Lent() if loader.seeding == "batch" else None
        pipes.begin_epoch(loader.dataset, pipes.epoch_of(loader.dataset, self.progress.pipe_seed))
        keep_freed()

    def _fetched(self, task, indices):
        if self._pure or self._lent is None:
            return self._call(indices)
        seed = mixed(self.progress.base_seed, task, 0)
        with self._lent.at(seed):
            return self._call(indices)

    def _call(self, indices):
        try:
            if self._fetch is None:
                self._fetch, self._pure = fetcher(self._loader)
            return self._fetch(indices)
        except StopIteration as error:
            raise _not_the_end(error) from error

    def _next(self):
        while not self.progress.finished and (drawn := self._drawn()) is not None:
            task, indices = drawn
            again = self.progress.has(task)
            self.progress.give(task)
            batch = self._fetched(task, indices)
            if batch is END:
                break
            if not again:
                return batch
        return self._finish()


class WorkerPass(Pass):
    """Has workers load batches ahead, and gives them in order, or as they come."""

    def __init__(self, loader, progress):
        super().__init__(loader, progress)
        base_seed = self.progress.base_seed
        self._workers = loader._take_workers(base_seed)
        if not loader.persistent_workers:
            weakref.finalize(self, self._workers.close)
        self._epoch = self._workers.begin(base_seed, pipes.epoch_of(loader.dataset, self.progress.pipe_seed))
        self._in_order, self._timeout = loader.in_order, loader.timeout or None
        self._limit = loader.prefetch_factor * loader.num_workers
        self._active = set(range(loader.num_workers))  # workers whose samples have not ended
        self._turns = cycle(range(loader.num_workers))
        self._ready, self._asked = {}, {}  # batch -> what came; batch -> the worker that loads it
        self._last, self._exhausted = -1, False
        self._fill()

    def _fill(self):
        """Asks for batches until enough are on their way."""
        while not self._exhausted and self._active and len(self._asked) + len(self._ready) < self._limit:
            worker = self._choose()
            if worker is None:
                return
            try:
                drawn = self._drawn()
            except Exception as error:  # of the sampler: raised when the batches before it have been given
                self._exhausted = True
                self._ready[max(self._last + 1, self.progress.given)] = "error", error
                return
            if drawn is None:
                self._exhausted = True
                return
            self._last, indices = drawn
            self._asked[self._last] = worker
            self._workers.send(worker, self._last, indices, self.progress.has(self._last))

    def _choose(self):
        """The worker of the next batch: each in its turn; where the order is free, the next that has room."""
        for worker in islice(self._turns, self._loader.num_workers):
            if worker in self._active and (self._in_order
                                           or self._workers.load_of(worker) < self._loader.prefetch_factor):
                return worker
        return None

    def _next(self):
        if self.progress.finished:
            raise StopIteration
        if self._workers.closed or self._workers.epoch != self._epoch:
            raise RuntimeError("DataLoader: this pass has ended, because its workers ended or began another pass; "
                               "begin a new one with iter(loader)")
        self._fill()
        while (task := self._due()) is None:
            if not self._asked:
                return self._end()
            self._receive()
            self._fill()
        kind, what = self._ready.pop(task)
        self.progress.give(task)
        self._fill()
        if kind == "error" and isinstance(what, StopIteration):
            raise _not_the_end(what) from what
        if kind == "error":
            raise what
        return what

    def _due(self):
        """The number of the batch to give now, if it is there."""
        if not self._in_order:
            return next(iter(self._ready), None)
        return self.progress.given if self.progress.given in self._ready else None

    def _receive(self):
        try:
            found = self._workers.receive(self._timeout)
        except BaseException:  # Ctrl-C may have come in the middle of a message: nothing after it can be relied on
            self._workers.close()
            raise
        if not found:
            where = self._workers.stuck()
            self._workers.close(grace=0)
            raise RuntimeError(f"DataLoader: no batch came within {self._timeout} seconds (timeout): {where}")
        for kind, task, what in found:
            if kind == "init":
                self._workers.close()
                raise what
            self._take(kind, task, what)

    def _take(self, kind, task, what):
        worker = self._asked.pop(task)
        if kind in ("batch", "error"):
            self._ready[task] = kind, what
            return
        if kind == "end":
            self._active.discard(worker)
        self.progress.give(task)

    def _end(self):
        if not self._loader.persistent_workers:
            self._workers.close()
        return self._finish()
