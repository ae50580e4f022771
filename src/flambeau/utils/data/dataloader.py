"""The loader: which samples form a batch, who loads them, and what an epoch draws from the random stream."""

import multiprocessing
import os
import weakref
from collections import namedtuple
from collections.abc import Callable
from typing import Any, Generic, TypeVar
from warnings import warn

from ... import _C
from ..._shown import shown
from ._utils import pipes
from ._utils.collate import default_collate, default_convert
from ._utils.own_loaders import DatasetKind as _DatasetKind
from ._utils.own_loaders import OwnPass as _BaseDataLoaderIter
from ._utils.processes import Processes, context_of
from ._utils.threads import Threads
from ._utils.worker import Plan
from ._utils.worker import get_worker_info as get_worker_info
from .dataset import IterableDataset
from .passes import Pass, SerialPass, WorkerPass
from .sampler import BatchSampler, RandomSampler, SequentialSampler
from .state import restored, saved

T = TypeVar("T")
#: what is given as worker_init_fn and collate_fn, for annotations
_worker_init_fn_t = Callable[[int], None]
_collate_fn_t = Callable[[list[T]], Any]

_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
_METHODS = ("multiprocessing", "thread")
_SEEDINGS = ("batch", "worker")
_PREFETCHED = 2

Timing = namedtuple("Timing", "waited total")
Timing.__doc__ = "Seconds that a pass was waited for, and seconds since its beginning."


class _InfiniteConstantSampler:
    """For datasets that are iterated over there is nothing to choose."""

    def __iter__(self):
        while True:
            yield None


def _check_workers(num_workers, timeout, prefetch_factor, persistent_workers):
    if num_workers < 0:
        raise ValueError(f"DataLoader: num_workers must not be negative, got {shown(num_workers)}; 0 loads in the main "
                         "process")
    if timeout < 0:
        raise ValueError(f"DataLoader: timeout must not be negative, got {shown(timeout)}")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(f"DataLoader: prefetch_factor={shown(prefetch_factor)} is for workers, and num_workers is 0; "
                         "leave it out")
    if num_workers == 0 and persistent_workers:
        raise ValueError("DataLoader: persistent_workers=True is for workers, and num_workers is 0; leave it out")
    if prefetch_factor is not None and prefetch_factor < 1:
        raise ValueError(f"DataLoader: prefetch_factor must be at least 1, got {shown(prefetch_factor)}")


def _check_choice(name, value, choices):
    if value not in choices:
        raise ValueError(f"DataLoader: {name} must be one of {choices}, got {shown(value)}")


def _check_context(context, num_workers, worker_method):
    if context is None:
        return
    if num_workers == 0:
        raise ValueError("DataLoader: multiprocessing_context is for workers, and num_workers is 0; leave it out")
    if worker_method == "thread":
        raise ValueError("DataLoader: multiprocessing_context is for worker processes, and worker_method is 'thread'; "
                         "leave it out")
    if isinstance(context, str):
        if context not in multiprocessing.get_all_start_methods():
            raise ValueError("DataLoader: multiprocessing_context must be one of "
                             f"{multiprocessing.get_all_start_methods()}, got {shown(context)}")
    elif not isinstance(context, multiprocessing.context.BaseContext):
        raise TypeError("DataLoader: multiprocessing_context must be a start method or what "
                        f"multiprocessing.get_context returns, got {shown(context)}")


def _check_iterable(dataset, shuffle, sampler, batch_sampler):
    shuffle = None if pipes.is_iter_pipe(dataset) else shuffle or None
    for name, value in (("shuffle", shuffle), ("sampler", sampler), ("batch_sampler", batch_sampler)):
        if value is not None:
            raise ValueError("DataLoader: an IterableDataset decides the order itself; leave out "
                             f"{name}={shown(value)}")


def _check_order(batch_size, shuffle, sampler, batch_sampler, drop_last):
    """Each question, which samples and how many together, has one answer."""
    if sampler is not None and shuffle:
        raise ValueError("DataLoader: a sampler decides the order; leave out shuffle, or use RandomSampler")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ValueError("DataLoader: batch_sampler decides the batches; leave out batch_size, shuffle, sampler and "
                         "drop_last")
    if batch_sampler is None and batch_size is None and drop_last:
        raise ValueError("DataLoader: batch_size=None yields single samples, so there is no last batch to drop; leave "
                         "out drop_last")


class DataLoader(Generic[T]):
    """Batches of a dataset, in order or shuffled, loaded here or by workers.

    num_workers, worker_method: how many processes ("multiprocessing") or threads ("thread") load ahead, each up to
    `prefetch_factor` batches. Batches of processes come back in shared memory.
    seeding: "batch" seeds the random streams of a batch from the epoch's base seed and the batch's number, so that its
    samples are the same for any num_workers, 0 included; "worker" seeds each worker once, as PyTorch does, and leaves
    the streams alone with num_workers=0.

    With the default `collate_fn`, batches of a TensorDataset (or of a Subset of one) are gathered by one indexing per
    tensor. Each pass draws from the default stream, or from `generator`, exactly as PyTorch's loader does.

    >>> import flambeau
    >>> from flambeau.utils.data import DataLoader, TensorDataset
    >>> loader = DataLoader(TensorDataset(flambeau.arange(5)), batch_size=2, num_workers=2)
    >>> [batch.tolist() for batch, in loader]
    [[0, 1], [2, 3], [4]]
    """

    _initialized = False
    _progress = _resume = _workers = _context = _told = _iterator = _IterableDataset_len_called = None
    worker_method = "multiprocessing"

    def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0,
                 collate_fn=None, pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None,
                 multiprocessing_context=None, generator=None, *, prefetch_factor=None, persistent_workers=False,
                 pin_memory_device="", in_order=True, worker_method="multiprocessing", seeding="batch"):
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        _check_choice("worker_method", worker_method, _METHODS)
        _check_choice("seeding", seeding, _SEEDINGS)
        if pin_memory and not _C._cuda.available():
            warn("DataLoader: pin_memory=True has no effect: no accelerator is found", UserWarning, stacklevel=2)
        self._dataset_kind = _DatasetKind.Iterable if isinstance(dataset, IterableDataset) else _DatasetKind.Map
        if self._iterable:
            _check_iterable(dataset, shuffle, sampler, batch_sampler)
        _check_order(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset = pipes.shuffled(dataset, shuffle)
        self.sampler = self._default_sampler(shuffle, generator) if sampler is None else sampler
        if batch_sampler is not None:
            batch_size = None
        elif batch_size is not None:
            batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        self.batch_size, self.batch_sampler, self.drop_last = batch_size, batch_sampler, drop_last
        usual = default_convert if batch_sampler is None else default_collate
        self.collate_fn = usual if collate_fn is None else collate_fn
        self.generator, self.in_order, self.timeout = generator, in_order, timeout
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.num_workers, self.worker_method, self.seeding = num_workers, worker_method, seeding
        self.prefetch_factor = _PREFETCHED if num_workers and prefetch_factor is None else prefetch_factor
        self.persistent_workers, self.worker_init_fn = persistent_workers, worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self._initialized = True
        self.check_worker_number_rationality()

    def _default_sampler(self, shuffle, generator):
        if self._iterable:
            return _InfiniteConstantSampler()
        return RandomSampler(self.dataset, generator=generator) if shuffle else SequentialSampler(self.dataset)

    def __setattr__(self, name, value):
        if self._initialized and name in _FIXED:
            raise ValueError(f"{type(self).__name__}: {name} is fixed; create a new loader to change it")
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self):
        """The context that worker processes are started from, or None for the usual one."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context):
        _check_context(context, self.num_workers, self.worker_method)
        self._context = context if context is None else context_of(context)

    @property
    def _iterable(self):
        return self._dataset_kind == _DatasetKind.Iterable

    @property
    def _batched(self):
        return self.batch_sampler is not None

    _auto_collation = _batched  # by the name that loaders of packages ask for

    @property
    def _index_sampler(self):
        return self.batch_sampler if self._batched else self.sampler

    def __iter__(self):
        progress, self._resume = self._resume, None
        found = (_MultiProcessingDataLoaderIter if self.num_workers else _SingleProcessDataLoaderIter)(self, progress)
        self._progress = found.progress
        return found

    def _running_workers(self):
        """Persistent workers of this process that an earlier pass has started, or None."""
        found = self._workers
        return None if found is None or found.closed or found.pid != os.getpid() else found

    def _take_workers(self, base_seed):
        """Workers for a new pass; persistent ones are started once."""
        if (running := self._running_workers()) is not None:
            return running
        plan = Plan(self.dataset, self.collate_fn, self.drop_last, self._batched, self.worker_init_fn, self.seeding,
                    self.num_workers, self.prefetch_factor, self._iterable)
        workers = Threads(plan, base_seed) if self.worker_method == "thread" else \
            Processes(plan, base_seed, context_of(self._context))
        if self.persistent_workers:
            self._workers = workers
            weakref.finalize(self, workers.close)
        return workers

    def __len__(self):
        if not self._iterable:
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
        self._told = length = len(self.dataset)
        if self.batch_size is None:
            return length
        whole, rest = divmod(length, self.batch_size)
        self._told = whole + (rest > 0 and not self.drop_last)
        return self._told

    def state_dict(self):
        """Where the pass under way is: a new loader continues there after `load_state_dict`, batch by batch the same.

        Plain data that `flambeau.save` writes. Between two passes it says only that.

        >>> import flambeau
        >>> from flambeau.utils.data import DataLoader, TensorDataset
        >>> samples = TensorDataset(flambeau.arange(6))
        >>> loader = DataLoader(samples, batch_size=2, shuffle=True)
        >>> batches = iter(loader)
        >>> seen = next(batches)
        >>> other = DataLoader(samples, batch_size=2, shuffle=True, num_workers=1)
        >>> other.load_state_dict(loader.state_dict())
        >>> [batch.tolist() for batch, in other] == [batch.tolist() for batch, in batches]
        True
        """
        return saved(self, self._resume or self._progress)

    def load_state_dict(self, state_dict):
        """The next pass continues where `state_dict` was taken; num_workers may have changed since."""
        self._resume, self._progress = restored(self, state_dict), None

    def timing(self):
        """How long the latest pass has been waited for: seconds `waited`, of `total` seconds since it began.

        None before the first pass. With num_workers=0 all loading is waiting.
        """
        latest = self._progress
        return None if latest is None or latest.begun is None else Timing(latest.waited, latest.until - latest.begun)

    def check_worker_number_rationality(self):
        """Warns where there are more workers than processors to run them."""
        usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if self.num_workers > usable and self.worker_method == "multiprocessing":
            warn(f"DataLoader: {self.num_workers} worker processes for {usable} processors: more than {usable} only "
                 "help where they wait for files or networks", UserWarning, stacklevel=3)


# --- passes under the names by which packages know them ---------------------------------------------------------------

class _Iterated(IterableDataset):
    """Another object's samples, in its own order; its attributes are those of this dataset."""

    def __init__(self, dataset):
        self.own = dataset

    def __iter__(self):
        return iter(self.own)

    def __getattr__(self, name):
        if name == "own" or name.startswith("__"):  # while it is unpickled
            raise AttributeError(name)
        return getattr(self.own, name)


def _loader_of(given):
    """The loader itself; or one that loads what an object asks for which has the attributes of a loader alone, as
    packages with loaders of their own make them."""
    if isinstance(given, DataLoader):
        return given
    dataset, order = given.dataset, {}
    if given._dataset_kind == _DatasetKind.Iterable:
        dataset = dataset if isinstance(dataset, IterableDataset) else _Iterated(dataset)
        order["batch_size"] = getattr(given, "batch_size", 1) if given._auto_collation else None
        order["drop_last"] = given.drop_last and given._auto_collation
    elif given._auto_collation:
        order["batch_sampler"] = given._index_sampler
    else:
        order.update(batch_size=None, sampler=given._index_sampler)
    workers = given.num_workers
    return DataLoader(dataset, **order, num_workers=workers, collate_fn=given.collate_fn, pin_memory=given.pin_memory,
                      timeout=given.timeout, worker_init_fn=given.worker_init_fn, generator=given.generator,
                      prefetch_factor=given.prefetch_factor if workers else None, in_order=given.in_order,
                      multiprocessing_context=given.multiprocessing_context if workers else None, seeding="worker")


class _SingleProcessDataLoaderIter(SerialPass):
    def __init__(self, loader, progress=None):
        super().__init__(_loader_of(loader), progress)


class _MultiProcessingDataLoaderIter(WorkerPass):
    def __init__(self, loader, progress=None):
        super().__init__(_loader_of(loader), progress)


def _sharding_worker_init_fn(worker_init_fn, world_size, rank_id, worker_id):
    """The first call in a worker: it takes its share of a datapipe, then the user's function runs."""
    own = get_worker_info()
    pipes.begin_epoch(own.dataset, (None, world_size, rank_id), own.num_workers, worker_id)
    if worker_init_fn is not None:
        worker_init_fn(worker_id)


_BaseDataLoaderIter.register(Pass)
