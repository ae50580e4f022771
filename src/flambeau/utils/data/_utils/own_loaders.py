"""What packages build loaders of their own from: a pass that asks for indices and data, and the steps of a worker.

Nothing here is used by this library's loader.
"""

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import islice

from .... import _C
from ..sampler import fresh_seed
from . import pipes


class MapFetcher:
    """Samples by index; `fetch` gives the batch."""

    def __init__(self, dataset, auto_collation, collate_fn, drop_last):
        self.dataset, self.auto_collation = dataset, auto_collation
        self.collate_fn, self.drop_last = collate_fn, drop_last

    def fetch(self, index):
        dataset = self.dataset
        if not self.auto_collation:
            return self.collate_fn(dataset[index])
        many = getattr(dataset, "__getitems__", None)
        return self.collate_fn(many(index) if many else [dataset[i] for i in index])


class IterableFetcher(MapFetcher):
    """Samples in the dataset's order, as many as there are indices; `ended` once fewer came."""

    def __init__(self, dataset, auto_collation, collate_fn, drop_last):
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        self.dataset_iter, self.ended = iter(dataset), False

    def fetch(self, index):
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.dataset_iter))
        samples = list(islice(self.dataset_iter, len(index)))
        self.ended = len(samples) < len(index)
        if not samples or (self.ended and self.drop_last):
            raise StopIteration
        return self.collate_fn(samples)


class DatasetKind:
    """Whether a dataset is read by index or in its own order, as numbers."""

    Map, Iterable = 0, 1

    @staticmethod
    def create_fetcher(kind, dataset, auto_collation, collate_fn, drop_last):
        """What fetches batches of such a dataset."""
        made = IterableFetcher if kind == DatasetKind.Iterable else MapFetcher
        return made(dataset, auto_collation, collate_fn, drop_last)


class OwnPass(ABC):
    """A pass over a loader's batches: subclasses define `_next_data`, which asks `_next_index` what to load."""

    def __init__(self, loader):
        self._dataset, self._dataset_kind = loader.dataset, loader._dataset_kind
        self._auto_collation, self._drop_last = loader._auto_collation, loader.drop_last
        self._index_sampler, self._collate_fn = loader._index_sampler, loader.collate_fn
        self._num_workers, self._timeout = loader.num_workers, loader.timeout
        self._persistent_workers = loader.persistent_workers
        self._pin_memory_device = loader.pin_memory_device or None
        self._pin_memory = loader.pin_memory and _C._cuda.available()
        _, self._world_size, self._rank = pipes.epoch_of(self._dataset, None)
        if self._num_workers and find_spec("numpy") is not None:
            import_module("numpy")  # workers seed it: loaded here once, instead of in each of them
        OwnPass._reset(self, loader)  # a subclass's own reset comes when the subclass is ready for it
        self._base_seed = fresh_seed(loader.generator)

    def _reset(self, loader, first_iter=False):
        """Back to the beginning; a pipe's random steps get a new seed."""
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._shared_seed = pipes.seeded_anew(loader, self._dataset)

    def __iter__(self):
        return self

    def __len__(self):
        return len(self._index_sampler)  # the loader is not kept: it may hold its pass, whose end ends workers

    def _next_index(self):
        return next(self._sampler_iter)

    @abstractmethod
    def _next_data(self):
        """The next batch; StopIteration after the last."""

    def __next__(self):
        batch = self._next_data()
        self._num_yielded += 1
        return batch

    def __getstate__(self):
        raise NotImplementedError(f"{type(self).__name__} is a pass under way, which is not copied or sent to another "
                                  "process; send its loader")


@dataclass(frozen=True)
class IterableEnd:
    """Sent by a worker whose iterable dataset has no more samples."""

    worker_id: int


@dataclass(frozen=True)
class ResumeIteration:
    """Sent to a worker that shall begin a new pass; `seed` is that of a datapipe's random steps."""

    seed: int | None = None


class Watchdog:
    """Asked by a worker whether the process that started it still runs."""

    def __init__(self):
        self._parent = os.getppid()

    def is_alive(self):
        return os.getppid() == self._parent
