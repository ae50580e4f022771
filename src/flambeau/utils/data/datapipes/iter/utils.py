"""The beginning of a pipeline: a datapipe over anything that can be iterated over."""

import copy
import warnings

from ..datapipe import IterDataPipe


class IterableWrapperIterDataPipe(IterDataPipe):
    """The elements of an iterable. Every pass takes a deep copy of it, so that changes of samples do not reach it,
    unless deepcopy=False.

    >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([1, 2, 3]))
    [1, 2, 3]
    """

    def __init__(self, iterable, deepcopy=True):
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self):
        source = self.iterable
        if self.deepcopy:
            try:
                source = copy.deepcopy(source)
            except TypeError:  # a generator, an open file
                warnings.warn("IterableWrapper: the iterable has no deep copy, so it is read itself, once, and what "
                              "later steps change in samples is changed in it; deepcopy=False says so", UserWarning,
                              stacklevel=2)
        yield from source

    def __len__(self):
        return len(self.iterable)
