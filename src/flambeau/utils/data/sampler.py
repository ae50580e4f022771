"""Samplers: the order in which indices are visited. Random ones draw as PyTorch does, so a seed gives its order."""

from itertools import islice
from typing import Generic, TypeVar

import flambeau

from ..._shown import shown

T = TypeVar("T")
_DRAWN_AT_ONCE = 32  # part of the stream's definition: indices with replacement are drawn in blocks of this many


class Sampler(Generic[T]):
    """Base of samplers: `__iter__` over indices, and usually `__len__`."""

    def __init__(self, data_source=None):
        pass

    def __iter__(self):
        raise NotImplementedError(f"{type(self).__name__} should implement __iter__.")


class SequentialSampler(Sampler[int]):
    """0, 1, 2, …"""

    def __init__(self, data_source):
        self.data_source = data_source

    def __iter__(self):
        return iter(range(len(self.data_source)))

    def __len__(self):
        return len(self.data_source)


def fresh_seed(generator=None):
    """A seed drawn from `generator`, or from the default stream."""
    return flambeau.empty((), dtype=flambeau.int64).random_(generator=generator).item()


class RandomSampler(Sampler[int]):
    """Indices in random order; with `replacement`, drawn independently.

    >>> import flambeau
    >>> from flambeau.utils.data import RandomSampler
    >>> sorted(RandomSampler(range(4)))
    [0, 1, 2, 3]
    """

    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"RandomSampler: replacement must be a bool, got {shown(replacement)}")
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(f"RandomSampler: num_samples must be a positive int, got {shown(self.num_samples)}")

    @property
    def num_samples(self):
        """How many indices one pass gives."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self):
        generator = self.generator
        if generator is None:
            generator = flambeau.Generator()
            generator.manual_seed(fresh_seed())
        yield from self._replaced(generator) if self.replacement else self._permuted(generator)

    def _replaced(self, generator):
        n, left = len(self.data_source), self.num_samples
        while left >= _DRAWN_AT_ONCE:
            yield from flambeau.randint(0, n, (_DRAWN_AT_ONCE,), dtype=flambeau.int64, generator=generator).tolist()
            left -= _DRAWN_AT_ONCE
        yield from flambeau.randint(0, n, (left,), dtype=flambeau.int64, generator=generator).tolist()

    def _permuted(self, generator):
        n, left = len(self.data_source), self.num_samples
        while left >= n:
            yield from flambeau.randperm(n, generator=generator).tolist()
            left -= n
        yield from flambeau.randperm(n, generator=generator).tolist()[:left]

    def __len__(self):
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order."""

    def __init__(self, indices, generator=None):
        self.indices = indices
        self.generator = generator

    def __iter__(self):
        for i in flambeau.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self):
        return len(self.indices)


def _check_count(owner, name, value):
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{owner}: {name} must be a positive int, got {shown(value)}")


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with probabilities proportional to `weights`."""

    def __init__(self, weights, num_samples, replacement=True, generator=None):
        _check_count("WeightedRandomSampler", "num_samples", num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(f"WeightedRandomSampler: replacement must be a bool, got {shown(replacement)}")
        weights = flambeau.as_tensor(weights, dtype=flambeau.float64)
        if weights.dim() != 1:
            raise ValueError(f"WeightedRandomSampler: weights must have 1 dimension, got shape {list(weights.shape)}")
        self.weights = weights
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self):
        yield from flambeau.multinomial(self.weights, self.num_samples, self.replacement,
                                        generator=self.generator).tolist()

    def __len__(self):
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of `batch_size` indices of `sampler`; the last, shorter one is left out with `drop_last`.

    >>> from flambeau.utils.data import BatchSampler
    >>> list(BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler, batch_size, drop_last):
        _check_count("BatchSampler", "batch_size", batch_size)
        if not isinstance(drop_last, bool):
            raise ValueError(f"BatchSampler: drop_last must be a bool, got {shown(drop_last)}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self):
        indices = iter(self.sampler)
        while batch := list(islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self):
        whole, rest = divmod(len(self.sampler), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)
