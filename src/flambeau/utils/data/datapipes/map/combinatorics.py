"""The order of samples: `shuffle`."""

from ..iter.combinatorics import _Random


class ShufflerIterDataPipe(_Random):
    """The samples of a datapipe in random order, to iterate over. indices: its keys; by default 0, 1, 2, …

    >>> from flambeau.utils.data.datapipes.map import SequenceWrapper
    >>> list(SequenceWrapper("abcd").shuffle().set_seed(1))
    ['d', 'a', 'c', 'b']
    """

    def __init__(self, datapipe, *, indices=None):
        super().__init__()
        self.datapipe = datapipe
        self.indices = list(range(len(datapipe))) if indices is None else indices
        self._shuffled_indices = self.indices

    def __iter__(self):
        if not self._enabled:
            yield from (self.datapipe[index] for index in self.indices)
            return
        while self._shuffled_indices:
            yield self.datapipe[self._shuffled_indices.pop()]

    def reset(self):
        self._seed_again()
        if self._enabled:
            self._shuffled_indices = self._rng.sample(self.indices, len(self.indices))

    def __len__(self):
        return len(self.datapipe)
