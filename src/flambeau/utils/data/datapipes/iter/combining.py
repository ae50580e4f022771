"""Several datapipes as one: one after the other, in turns, or side by side."""

from ....._shown import shown
from ..datapipe import IterDataPipe


def checked(datapipes, kind, owner):
    """The datapipes, which must be of the kind; at least one."""
    if not datapipes:
        raise ValueError(f"{owner}: nothing to put together; give at least one datapipe")
    for pipe in datapipes:
        if not isinstance(pipe, kind):
            raise TypeError(f"{owner}: every argument must be an instance of {kind.__name__}, got {shown(pipe)}")
    return datapipes


class ConcaterIterDataPipe(IterDataPipe):
    """The samples of the first datapipe, then those of the next, …

    >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([1, 2]).concat(IterableWrapper([3])))
    [1, 2, 3]
    """

    def __init__(self, *datapipes):
        self.datapipes = checked(datapipes, IterDataPipe, "concat")

    def __iter__(self):
        for pipe in self.datapipes:
            yield from pipe

    def __len__(self):
        return sum(map(len, self.datapipes))


class MultiplexerIterDataPipe(IterDataPipe):
    """One sample of each datapipe in turn, until the shortest has no more.

    >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([1, 2, 3]).mux(IterableWrapper([10, 20])))
    [1, 10, 2, 20]
    """

    def __init__(self, *datapipes):
        self.datapipes = checked(datapipes, IterDataPipe, "mux")

    def __iter__(self):
        for samples in zip(*self.datapipes):
            yield from samples

    def __len__(self):
        return min(map(len, self.datapipes)) * len(self.datapipes)


class ZipperIterDataPipe(IterDataPipe):
    """Tuples of one sample of each datapipe, until the shortest has no more.

    >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([1, 2, 3]).zip(IterableWrapper("ab")))
    [(1, 'a'), (2, 'b')]
    """

    def __init__(self, *datapipes):
        self.datapipes = checked(datapipes, IterDataPipe, "zip")

    def __iter__(self):
        yield from zip(*self.datapipes)

    def __len__(self):
        return min(map(len, self.datapipes))
