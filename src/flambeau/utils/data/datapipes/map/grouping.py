"""Samples together: `batch`."""

from ..datapipe import DataChunk, MapDataPipe
from ..iter.grouping import batches, check_batch_size
from .combining import place


class BatcherMapDataPipe(MapDataPipe):
    """Lists of `batch_size` samples; the last, shorter one is left out with `drop_last`.

    >>> from flambeau.utils.data.datapipes.map import SequenceWrapper
    >>> SequenceWrapper(range(5)).batch(2)[1]
    [2, 3]
    """

    def __init__(self, datapipe, batch_size, drop_last=False, wrapper_class=DataChunk):
        check_batch_size(batch_size)
        self.datapipe, self.batch_size = datapipe, batch_size
        self.drop_last, self.wrapper_class = drop_last, wrapper_class

    def __getitem__(self, index):
        start = place(index, len(self), "batch") * self.batch_size
        stop = min(start + self.batch_size, len(self.datapipe))
        return self.wrapper_class([self.datapipe[k] for k in range(start, stop)])

    def __len__(self):
        return batches(len(self.datapipe), self.batch_size, self.drop_last)
