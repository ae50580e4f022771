"""Batches of data frames."""

from ..datapipe import DataChunk
from . import dataframe_wrapper as frames


class DataChunkDF(DataChunk):
    """Frames that belong together; iteration and length are those of their rows."""

    def __iter__(self):
        for frame in self.items:
            yield from frames.iterate(frame)

    def __len__(self):
        return sum(map(frames.get_len, self.items))
