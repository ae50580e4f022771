"""Functions of single samples: `map`."""

from ..datapipe import MapDataPipe
from ..utils.common import check_function


def default_fn(data):
    """The sample itself."""
    return data


class MapperMapDataPipe(MapDataPipe):
    """`fn` of the sample that is asked for.

    >>> from flambeau.utils.data.datapipes.map import SequenceWrapper
    >>> SequenceWrapper([1, 2, 3]).map(str)[2]
    '3'
    """

    def __init__(self, datapipe, fn=default_fn):
        check_function(fn, "map")
        self.datapipe, self.fn = datapipe, fn

    def __len__(self):
        return len(self.datapipe)

    def __getitem__(self, index):
        return self.fn(self.datapipe[index])
