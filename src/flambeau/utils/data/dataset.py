"""Datasets: samples by index, or one after the other."""

from bisect import bisect_right
from itertools import accumulate
from math import floor, isclose
from typing import Generic, TypeVar
from warnings import warn

import flambeau

from ..._shown import shown

T = TypeVar("T")


class Dataset(Generic[T]):
    """Base of datasets with samples by index: `__getitem__`, and usually `__len__`.

    >>> from flambeau.utils.data import Dataset
    >>> class Squares(Dataset):
    ...     def __len__(self):
    ...         return 4
    ...     def __getitem__(self, index):
    ...         return index ** 2
    >>> Squares()[3]
    9
    """

    def __getitem__(self, index):
        raise NotImplementedError(f"{type(self).__name__}: a Dataset says what sample `index` is in a method "
                                  "__getitem__, which is missing here")

    def __add__(self, other):
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T]):
    """Base of datasets that are only iterated over: `__iter__`."""

    def __iter__(self):
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other):
        return ChainDataset([self, other])


def batch_function(dataset):
    """A function from a list of indices to the batch that `default_collate` would make, where that is faster; or None.

    Only for classes whose `__getitem__` is the one known here: a subclass that overrides it is asked sample by sample.
    """
    getitem = type(dataset).__getitem__
    if getitem is TensorDataset.__getitem__:
        return dataset._batch
    if getitem is Subset.__getitem__ and type(dataset).__getitems__ is Subset.__getitems__:
        inner = batch_function(dataset.dataset)
        return inner and (lambda indices: inner([dataset.indices[i] for i in indices]))
    return None


class TensorDataset(Dataset):
    """Sample i is the tuple of the i-th rows of `tensors`.

    >>> import flambeau
    >>> from flambeau.utils.data import TensorDataset
    >>> TensorDataset(flambeau.arange(3), flambeau.tensor([1., 2., 3.]))[1]
    (tensor(1), tensor(2.))
    """

    def __init__(self, *tensors):
        if any(len(t) != len(tensors[0]) for t in tensors):
            raise AssertionError("Size mismatch between tensors: first dimensions are "
                                 f"{[t.shape[0] for t in tensors]}")
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(tensor[index] for tensor in self.tensors)

    def _batch(self, indices):
        rows = flambeau.tensor(indices, dtype=flambeau.int64)
        return [tensor[rows] for tensor in self.tensors]

    def __getitems__(self, indices):
        """The samples at `indices`, cut from one gathered batch."""
        return list(zip(*(part.unbind(0) for part in self._batch(indices))))

    def __len__(self):
        return self.tensors[0].size(0)


class StackDataset(Dataset):
    """Sample i is the tuple (or, for keyword arguments, the dict) of the i-th samples of several datasets."""

    def __init__(self, *args, **kwargs):
        if args and kwargs:
            raise ValueError("StackDataset: pass the datasets by position (samples are tuples) or by keyword (samples "
                             "are dicts), not both")
        if not args and not kwargs:
            raise ValueError("StackDataset: at least one dataset is needed")
        self.datasets = args or kwargs
        lengths = [len(d) for d in self._parts()]
        if len(set(lengths)) != 1:
            raise ValueError(f"Size mismatch between datasets: lengths are {shown(lengths)}")
        self._length = lengths[0]

    def _parts(self):
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def _sample(self, values):
        return dict(zip(self.datasets, values)) if isinstance(self.datasets, dict) else tuple(values)

    def __getitem__(self, index):
        return self._sample([d[index] for d in self._parts()])

    def __getitems__(self, indices):
        """The samples at `indices`."""
        columns = []
        for dataset in self._parts():
            many = getattr(dataset, "__getitems__", None)
            column = many(indices) if callable(many) else [dataset[i] for i in indices]
            if len(column) != len(indices):
                raise ValueError(f"StackDataset: __getitems__ of a dataset returned {len(column)} samples for "
                                 f"{len(indices)} indices")
            columns.append(column)
        return [self._sample(values) for values in zip(*columns)]

    def __len__(self):
        return self._length


class ConcatDataset(Dataset[T]):
    """The samples of several datasets, one dataset after the other.

    >>> from flambeau.utils.data import ConcatDataset
    >>> ConcatDataset([[1, 2], [3]])[2]
    3
    """

    def __init__(self, datasets):
        super().__init__()
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("ConcatDataset: at least one dataset is needed")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertionError("ConcatDataset: an IterableDataset has no places to join; use ChainDataset")
        self.cumulative_sizes = list(accumulate(len(d) for d in self.datasets))

    def __len__(self):
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx):
        if idx < 0:
            if -idx > len(self):
                raise ValueError(f"ConcatDataset: index {shown(idx)} is out of range for {len(self)} samples")
            idx += len(self)
        k = bisect_right(self.cumulative_sizes, idx)
        if k == len(self.datasets):
            raise IndexError(f"ConcatDataset: index {shown(idx)} is out of range for {len(self)} samples")
        return self.datasets[k][idx - (self.cumulative_sizes[k - 1] if k else 0)]


class ChainDataset(IterableDataset):
    """Iterable datasets, one after the other."""

    def __init__(self, datasets):
        super().__init__()
        self.datasets = datasets

    def _checked(self):
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError(f"ChainDataset: {type(dataset).__name__} is no IterableDataset; use ConcatDataset")
            yield dataset

    def __iter__(self):
        for dataset in self._checked():
            yield from dataset

    def __len__(self):
        return sum(len(dataset) for dataset in self._checked())


class Subset(Dataset[T]):
    """The samples of `dataset` at `indices`."""

    def __init__(self, dataset, indices):
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, idx):
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices):
        """The samples at `indices`."""
        many = getattr(self.dataset, "__getitems__", None)
        if callable(many):
            return many([self.indices[i] for i in indices])
        return [self.dataset[self.indices[i]] for i in indices]

    def __len__(self):
        return len(self.indices)


def _lengths_of(fractions, total):
    """Fractions as lengths; what rounding leaves goes to the parts in turn."""
    lengths = []
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"random_split: a share must be between 0 and 1, got {shown(fraction)} at position {i}")
        lengths.append(floor(total * fraction))
    for i in range(total - sum(lengths)):
        lengths[i % len(lengths)] += 1
    return lengths


def random_split(dataset, lengths, generator=None):
    """Random parts of `dataset` without overlap, of the given lengths, or fractions that sum to 1.

    >>> import flambeau
    >>> from flambeau.utils.data import random_split
    >>> parts = random_split(range(10), [0.7, 0.3], generator=flambeau.Generator().manual_seed(0))
    >>> [len(part) for part in parts]
    [7, 3]
    """
    lengths = list(lengths)
    if isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _lengths_of(lengths, len(dataset))
        for i, length in enumerate(lengths):
            if length == 0:
                warn(f"random_split: part {i} is empty", stacklevel=2)
    if sum(lengths) != len(dataset):
        raise ValueError(f"random_split: the lengths add up to {sum(lengths)}, the dataset has {len(dataset)} samples")
    order = flambeau.randperm(sum(lengths), generator=generator).tolist()
    ends = list(accumulate(lengths))
    return [Subset(dataset, order[end - length:end]) for end, length in zip(ends, lengths)]
