"""Several datapipes as one: one after the other, or side by side."""

from ....._shown import shown
from ..datapipe import MapDataPipe
from ..iter.combining import checked


def place(index, length, owner):
    """An index, which may count from the end, as a place from 0 on."""
    if not -length <= index < length:
        raise IndexError(f"{owner}: index {shown(index)} is out of range: there are {length}")
    return index + length if index < 0 else index


class ConcaterMapDataPipe(MapDataPipe):
    """The samples of the first datapipe, then those of the next, …; the keys are 0, 1, 2, …

    >>> from flambeau.utils.data.datapipes.map import SequenceWrapper
    >>> list(SequenceWrapper([1, 2]).concat(SequenceWrapper([3])))
    [1, 2, 3]
    """

    def __init__(self, *datapipes):
        self.datapipes = checked(datapipes, MapDataPipe, "concat")

    def __getitem__(self, index):
        index = place(index, len(self), "concat")
        for pipe in self.datapipes:
            if index < len(pipe):
                break
            index -= len(pipe)
        return pipe[index]

    def __len__(self):
        return sum(map(len, self.datapipes))


class ZipperMapDataPipe(MapDataPipe):
    """Tuples of the samples that the datapipes have under one key.

    >>> from flambeau.utils.data.datapipes.map import SequenceWrapper
    >>> SequenceWrapper([1, 2]).zip(SequenceWrapper("ab"))[1]
    (2, 'b')
    """

    def __init__(self, *datapipes):
        self.datapipes = checked(datapipes, MapDataPipe, "zip")

    def __getitem__(self, index):
        try:
            return tuple(pipe[index] for pipe in self.datapipes)
        except IndexError as error:
            raise IndexError(f"zip: index {shown(index)} is out of range of one of the {len(self.datapipes)} "
                             "datapipes") from error

    def __len__(self):
        return min(map(len, self.datapipes))
