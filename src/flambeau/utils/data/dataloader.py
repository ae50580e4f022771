"""The loader: which samples form a batch, how they are fetched, and what an epoch draws from the random stream."""

from itertools import islice
from typing import Generic, TypeVar
from warnings import warn

from ._utils.collate import default_collate, default_convert
from .dataset import IterableDataset, batch_function
from .sampler import BatchSampler, RandomSampler, SequentialSampler, fresh_seed

T = TypeVar("T")

_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


def get_worker_info():
    """What a worker process knows about itself; None here, in the main process."""
    return None


class _InfiniteSampler:
    """For datasets that are iterated over there is nothing to choose."""

    def __iter__(self):
        while True:
            yield None


def _check_workers(num_workers, timeout, prefetch_factor, persistent_workers):
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing. "
                         f"(got {num_workers})")
    if timeout < 0:
        raise ValueError(f"timeout option should be non-negative (got {timeout})")
    if num_workers > 0:
        raise NotImplementedError(f"DataLoader: num_workers={num_workers} is not supported: use num_workers=0, "
                                  "which loads in the main process")
    if prefetch_factor is not None:
        raise ValueError("prefetch_factor option could only be specified in multiprocessing. Set num_workers > 0 to "
                         "enable multiprocessing, otherwise set prefetch_factor to None.")
    if persistent_workers:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_iterable(shuffle, sampler, batch_sampler):
    for name, value in (("shuffle", shuffle or None), ("sampler", sampler), ("batch_sampler", batch_sampler)):
        if value is not None:
            raise ValueError(f"DataLoader with IterableDataset: expected unspecified {name} option, "
                             f"but got {name}={value}")


class DataLoader(Generic[T]):
    """Batches of a dataset, in order or shuffled.

    With the default `collate_fn`, batches of a TensorDataset (or of a Subset of one) are gathered by one indexing per
    tensor. Each pass draws from the default stream, or from `generator`, exactly as PyTorch's loader does.

    >>> import flambeau
    >>> from flambeau.utils.data import DataLoader, TensorDataset
    >>> loader = DataLoader(TensorDataset(flambeau.arange(5)), batch_size=2)
    >>> [batch.tolist() for batch, in loader]
    [[0, 1], [2, 3], [4]]
    """

    _initialized = False

    def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0,
                 collate_fn=None, pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None,
                 multiprocessing_context=None, generator=None, *, prefetch_factor=None, persistent_workers=False,
                 pin_memory_device="", in_order=True):
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        if multiprocessing_context is not None:
            raise ValueError("multiprocessing_context can only be used with multi-process loading (num_workers > 0), "
                             f"but got num_workers={num_workers}")
        if pin_memory:
            warn("DataLoader: pin_memory=True has no effect: no accelerator is found", UserWarning, stacklevel=2)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = None
        self.in_order = in_order
        self._iterable = isinstance(dataset, IterableDataset)
        if self._iterable:
            _check_iterable(shuffle, sampler, batch_sampler)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and "
                                 "drop_last")
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            sampler = self._default_sampler(shuffle, generator)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        if collate_fn is None:
            collate_fn = default_collate if batch_sampler is not None else default_convert
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self._initialized = True

    def _default_sampler(self, shuffle, generator):
        if self._iterable:
            return _InfiniteSampler()
        return RandomSampler(self.dataset, generator=generator) if shuffle else SequentialSampler(self.dataset)

    def __setattr__(self, name, value):
        if self._initialized and name in _FIXED:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    def __iter__(self):
        return _Pass(self)

    def __len__(self):
        if not self._iterable:
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
        length = len(self.dataset)
        if self.batch_size is None:
            return length
        whole, rest = divmod(length, self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def check_worker_number_rationality(self):
        """Nothing to check: loading happens in the main process."""


class _Pass:
    """One pass over a loader's batches."""

    def __init__(self, loader):
        self._length = loader.__len__
        # worker processes would be seeded with this: drawn in any case, so that the stream does not depend on them
        self._base_seed = fresh_seed(loader.generator)
        self._batches = _batches(loader)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._batches)

    def __len__(self):
        return self._length()


def _batches(loader):
    dataset, collate = loader.dataset, loader.collate_fn
    if loader._iterable:
        return _iterable_batches(loader)
    if loader.batch_sampler is None:
        return (collate(dataset[index]) for index in loader.sampler)
    gather = batch_function(dataset) if collate is default_collate else None
    if gather is not None:
        return (gather(indices) for indices in loader.batch_sampler)
    many = getattr(dataset, "__getitems__", None)
    if many:
        return (collate(many(indices)) for indices in loader.batch_sampler)
    return (collate([dataset[i] for i in indices]) for indices in loader.batch_sampler)


def _iterable_batches(loader):
    samples, collate = iter(loader.dataset), loader.collate_fn
    if loader.batch_size is None:
        yield from map(collate, samples)
        return
    while batch := list(islice(samples, loader.batch_size)):
        if len(batch) < loader.batch_size and loader.drop_last:
            return
        yield collate(batch)
