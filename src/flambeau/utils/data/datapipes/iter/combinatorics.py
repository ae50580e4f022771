"""The order of samples: `shuffle`, and samples in the order that a sampler gives."""

import random
from collections.abc import Sized

from ...sampler import SequentialSampler, fresh_seed
from ..datapipe import IterDataPipe


class SamplerIterDataPipe(IterDataPipe):
    """What a sampler of the datapipe gives: by default 0, 1, 2, … up to its length.

    >>> from flambeau.utils.data.datapipes.iter import IterableWrapper, Sampler
    >>> list(Sampler(IterableWrapper("abc")))
    [0, 1, 2]
    """

    def __init__(self, datapipe, sampler=SequentialSampler, sampler_args=None, sampler_kwargs=None):
        if not isinstance(datapipe, Sized):
            raise AssertionError(f"Sampler: a sampler needs the length of the datapipe, and {type(datapipe).__name__} "
                                 "has no __len__")
        self.datapipe = datapipe
        self.sampler_args = () if sampler_args is None else sampler_args
        self.sampler_kwargs = {} if sampler_kwargs is None else sampler_kwargs
        self.sampler = sampler(*self.sampler_args, data_source=datapipe, **self.sampler_kwargs)

    def __iter__(self):
        return iter(self.sampler)

    def __len__(self):
        return len(self.sampler)


class _Random(IterDataPipe):
    """A step that draws: what `set_shuffle`, `set_seed` and a new pass do to it."""

    def __init__(self):
        self._enabled, self._seed, self._rng = True, None, random.Random()

    def set_shuffle(self, shuffle=True):
        """Turns shuffling on or off."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed):
        """The order of the next pass; later passes draw a seed from the default stream."""
        self._seed = seed
        return self

    def _seed_again(self):
        if self._enabled:
            self._rng.seed(fresh_seed() if self._seed is None else self._seed)
            self._seed = None


class ShufflerIterDataPipe(_Random):
    """Samples in random order: from a buffer of `buffer_size` one is drawn, and the next sample takes its place.

    The seed is that of `set_seed`, or drawn from the default stream; DataLoader sets it for every epoch.
    unbatch_level: takes that many levels of batches apart first.

    >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(6)).shuffle().set_seed(1))
    [1, 5, 0, 3, 2, 4]
    """

    def __init__(self, datapipe, *, buffer_size=10000, unbatch_level=0):
        super().__init__()
        if buffer_size <= 0:
            raise AssertionError(f"shuffle: buffer_size must be positive, got {buffer_size}")
        self.datapipe = datapipe if unbatch_level == 0 else datapipe.unbatch(unbatch_level=unbatch_level)
        self.buffer_size, self._buffer = buffer_size, []

    def __iter__(self):
        if not self._enabled:
            yield from self.datapipe
            return
        buffer = self._buffer
        for sample in self.datapipe:
            if len(buffer) < self.buffer_size:
                buffer.append(sample)
                continue
            place = self._rng.randint(0, len(buffer) - 1)
            drawn, buffer[place] = buffer[place], sample
            yield drawn
        while buffer:
            yield buffer.pop(self._rng.randint(0, len(buffer) - 1))

    def reset(self):
        self._buffer = []
        self._seed_again()

    def __len__(self):
        return len(self.datapipe)
