"""Datapipes whose samples are data frames, and those that make them and take them apart."""

import random

from ..datapipe import DFIterDataPipe, IterDataPipe
from . import dataframe_wrapper as frames


def _rows(pipe):
    """Frames of one row each."""
    for frame in pipe:
        for k in range(frames.get_len(frame)):
            yield frames.get_item(frame, k)


class DataFramesAsTuplesPipe(IterDataPipe):
    """The rows of the frames, as tuples."""

    def __init__(self, source_datapipe):
        self.source_datapipe = source_datapipe

    def __iter__(self):
        for frame in self.source_datapipe:
            yield from frames.iterate(frame)


class PerRowDataFramesPipe(DFIterDataPipe):
    """Frames of one row each."""

    def __init__(self, source_datapipe):
        self.source_datapipe = source_datapipe

    def __iter__(self):
        yield from _rows(self.source_datapipe)


class ConcatDataFramesPipe(DFIterDataPipe):
    """Every `batch` frames as one."""

    def __init__(self, source_datapipe, batch=3):
        self.source_datapipe, self.n_batch = source_datapipe, batch

    def __iter__(self):
        held = []
        for frame in self.source_datapipe:
            held.append(frame)
            if len(held) == self.n_batch:
                yield frames.concat(held)
                held = []
        if held:
            yield frames.concat(held)


class ShuffleDataFramesPipe(DFIterDataPipe):
    """The rows of all frames in random order (Python's default stream), in frames as long as the first one."""

    def __init__(self, source_datapipe):
        self.source_datapipe = source_datapipe

    def __iter__(self):
        size, rows = None, []
        for frame in self.source_datapipe:
            size = frames.get_len(frame) if size is None else size
            rows += (frames.get_item(frame, k) for k in range(frames.get_len(frame)))
        random.shuffle(rows)
        for start in range(0, len(rows), size or 1):
            yield frames.concat(rows[start:start + size])


class FilterDataFramesPipe(DFIterDataPipe):
    """The rows for which `filter_fn` (of a frame of one row's columns) is true, in frames as long as the first one."""

    def __init__(self, source_datapipe, filter_fn):
        self.source_datapipe, self.filter_fn = source_datapipe, filter_fn

    def __iter__(self):
        size, held = None, []
        for frame in self.source_datapipe:
            size = frames.get_len(frame) if size is None else size
            wanted = list(frames.iterate(self.filter_fn(frame)))
            held += (frames.get_item(frame, k) for k, keep in enumerate(wanted) if keep)
            while len(held) >= size:
                yield frames.concat(held[:size])
                held = held[size:]
        if held:
            yield frames.concat(held)


class ExampleAggregateAsDataFrames(DFIterDataPipe):
    """Frames of `dataframe_size` samples each; a sample is a row, or the one value of a row."""

    def __init__(self, source_datapipe, dataframe_size=10, columns=None):
        self.source_datapipe, self.dataframe_size, self.columns = source_datapipe, dataframe_size, columns

    def __iter__(self):
        rows = []
        for sample in self.source_datapipe:
            rows.append(list(sample) if isinstance(sample, (list, tuple)) else [sample])
            if len(rows) == self.dataframe_size:
                yield frames.create_dataframe(rows, self.columns)
                rows = []
        if rows:
            yield frames.create_dataframe(rows, self.columns)
