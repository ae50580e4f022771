"""The loader: which samples form a batch, how they are fetched, and what an epoch draws from the random stream."""

from itertools import islice
from typing import Generic, TypeVar
from warnings import warn

from ..._shown import shown
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


def _check_workers(num_workers, timeout, prefetch_factor, persistent_workers, multiprocessing_context):
    if num_workers < 0:
        raise ValueError(f"DataLoader: num_workers must not be negative, got {shown(num_workers)}; 0 loads in the main "
                         "process")
    if timeout < 0:
        raise ValueError(f"DataLoader: timeout must not be negative, got {shown(timeout)}")
    if num_workers > 0:
        raise NotImplementedError(f"DataLoader: num_workers={shown(num_workers)} is not supported: use num_workers=0, "
                                  "which loads in the main process")
    if prefetch_factor is not None:
        raise ValueError(f"DataLoader: prefetch_factor={shown(prefetch_factor)} is for workers, and num_workers is 0; "
                         "leave "
                         "it out")
    if persistent_workers:
        raise ValueError("DataLoader: persistent_workers=True is for workers, and num_workers is 0; leave it out")
    if multiprocessing_context is not None:
        raise ValueError("DataLoader: multiprocessing_context is for workers, and num_workers is 0; leave it out")


def _check_iterable(shuffle, sampler, batch_sampler):
    for name, value in (("shuffle", shuffle or None), ("sampler", sampler), ("batch_sampler", batch_sampler)):
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
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers, multiprocessing_context)
        if pin_memory:
            warn("DataLoader: pin_memory=True has no effect: no accelerator is found", UserWarning, stacklevel=2)
        self.dataset, self._iterable = dataset, isinstance(dataset, IterableDataset)
        if self._iterable:
            _check_iterable(shuffle, sampler, batch_sampler)
        _check_order(batch_size, shuffle, sampler, batch_sampler, drop_last)
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
        self.num_workers, self.prefetch_factor = num_workers, prefetch_factor
        self.persistent_workers, self.worker_init_fn, self.multiprocessing_context = False, worker_init_fn, None
        self._initialized = True

    def _default_sampler(self, shuffle, generator):
        if self._iterable:
            return _InfiniteSampler()
        return RandomSampler(self.dataset, generator=generator) if shuffle else SequentialSampler(self.dataset)

    def __setattr__(self, name, value):
        if self._initialized and name in _FIXED:
            raise ValueError(f"{type(self).__name__}: {name} is fixed; create a new loader to change it")
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
