"""Samples together: `batch`, `unbatch` and `groupby`."""

from ....._shown import shown
from ..datapipe import DataChunk, IterDataPipe
from ..utils.common import check_function


class BatcherIterDataPipe(IterDataPipe):
    """Lists of `batch_size` samples (of the class `wrapper_class`); drop_last: without the last, shorter one.

    >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(5)).batch(2))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, datapipe, batch_size, drop_last=False, wrapper_class=DataChunk):
        check_batch_size(batch_size)
        self.datapipe, self.batch_size = datapipe, batch_size
        self.drop_last, self.wrapper_class = drop_last, wrapper_class

    def __iter__(self):
        batch = []
        for sample in self.datapipe:
            batch.append(sample)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self):
        return batches(len(self.datapipe), self.batch_size, self.drop_last)


def check_batch_size(batch_size):
    """AssertionError unless it is positive."""
    if batch_size <= 0:
        raise AssertionError(f"batch: batch_size must be positive, got {batch_size}")


def batches(count, batch_size, drop_last):
    """How many batches so many samples make."""
    return count // batch_size if drop_last else -(-count // batch_size)


class UnBatcherIterDataPipe(IterDataPipe):
    """What is in lists of samples, `unbatch_level` levels down; -1: all levels.

    >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([[[1, 2], [3]], [[4]]]).unbatch(2))
    [1, 2, 3, 4]
    """

    def __init__(self, datapipe, unbatch_level=1):
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def __iter__(self):
        if self.unbatch_level < -1:
            raise ValueError(f"unbatch: unbatch_level must be -1 (all) or a number of levels, got {self.unbatch_level}")
        for sample in self.datapipe:
            yield from self._inside(sample, self.unbatch_level)

    def _inside(self, sample, levels):
        if levels == 0 or (levels < 0 and not isinstance(sample, list)):
            yield sample
            return
        if not isinstance(sample, list):
            raise IndexError(f"unbatch: unbatch_level={self.unbatch_level}, but {self.unbatch_level - levels} levels "
                             f"down there is {type(sample).__name__} and no list")
        for part in sample:
            yield from self._inside(part, levels - 1)


class GrouperIterDataPipe(IterDataPipe):
    """Lists of samples whose `group_key_fn` is the same; with `keep_key`, (key, list).

    A group is given when it has `group_size` samples, or at the end. At most `buffer_size` samples wait: then the
    largest group is given, if it has `guaranteed_group_size` (by default, group_size) samples. A smaller one is left
    out with `drop_remaining`; otherwise that is a RuntimeError.

    >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([1, "a", 2, "b"]).groupby(type))
    [[1, 2], ['a', 'b']]
    """

    def __init__(self, datapipe, group_key_fn, *, keep_key=False, buffer_size=10000, group_size=None,
                 guaranteed_group_size=None, drop_remaining=False):
        check_function(group_key_fn, "groupby")
        if group_size is not None and not 0 < group_size <= buffer_size:
            raise AssertionError(f"groupby: group_size must be from 1 to buffer_size={buffer_size}, got {group_size}")
        if guaranteed_group_size is not None and not 0 < guaranteed_group_size <= (group_size or 0):
            raise AssertionError(f"groupby: guaranteed_group_size={guaranteed_group_size} must be from 1 to "
                                 f"group_size, which is {group_size}")
        self.datapipe, self.group_key_fn, self.keep_key = datapipe, group_key_fn, keep_key
        self.max_buffer_size, self.group_size, self.drop_remaining = buffer_size, group_size, drop_remaining
        self.guaranteed_group_size = guaranteed_group_size or group_size
        self.wrapper_class = DataChunk

    def _given(self, key, group):
        return (key, self.wrapper_class(group)) if self.keep_key else self.wrapper_class(group)

    def __iter__(self):
        groups, waiting = {}, 0
        for sample in self.datapipe:
            key = self.group_key_fn(sample)
            group = groups.setdefault(key, [])
            group.append(sample)
            waiting += 1
            if len(group) == self.group_size:
                waiting -= len(group)
                yield self._given(key, groups.pop(key))
            if waiting == self.max_buffer_size:
                key = max(groups, key=lambda k: len(groups[k]))
                group = groups.pop(key)
                waiting -= len(group)
                if self._large_enough(key, group):
                    yield self._given(key, group)
        for key in list(groups):
            yield self._given(key, groups.pop(key))

    def _large_enough(self, key, group):
        if self.guaranteed_group_size is None or len(group) >= self.guaranteed_group_size:
            return True
        if self.drop_remaining:
            return False
        raise RuntimeError(f"groupby: {self.max_buffer_size} samples wait, and the largest group (of key {shown(key)}) "
                           f"has {len(group)} of them, fewer than guaranteed_group_size={self.guaranteed_group_size}; "
                           "set a larger buffer_size, or drop_remaining=True to leave such groups out")
