"""Functions of single samples: `map` and `collate`."""

import copy
import functools

from ....._shown import shown
from ..._utils.collate import default_collate
from ..datapipe import IterDataPipe
from ..utils.common import check_function, validate_input_col


class MapperIterDataPipe(IterDataPipe):
    """`fn` of every sample; or of some of its columns (indices or keys).

    input_col: the column, or the list of columns, that `fn` gets. output_col: where its result goes: by default to the
    (first) column it came from, and the other ones are taken out; -1 appends to a list or tuple.

    >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([(1, 2), (3, 4)]).map(str, input_col=1))
    [(1, '2'), (3, '4')]
    """

    def __init__(self, datapipe, fn, input_col=None, output_col=None):
        check_function(fn, "map")
        self.datapipe, self.fn, self.input_col = datapipe, fn, input_col
        if input_col is None and output_col is not None:
            raise ValueError(f"map: output_col={shown(output_col)} needs an input_col, since without one the result "
                             "takes the place of the sample")
        if isinstance(output_col, (list, tuple)):
            if len(output_col) != 1:
                raise ValueError(f"map: output_col must be one column, got {shown(output_col)}")
            output_col = output_col[0]
        self.output_col = output_col
        validate_input_col(fn, input_col)

    def _apply_fn(self, data):
        columns = self.input_col
        if columns is None:
            return self.fn(data)
        several = isinstance(columns, (list, tuple))
        result = self.fn(*(data[c] for c in columns)) if several else self.fn(data[columns])
        changed = list(data) if isinstance(data, tuple) else copy.copy(data)
        self._put(changed, result, list(columns) if several else [columns])
        return tuple(changed) if isinstance(data, tuple) else changed

    def _put(self, data, result, columns):
        if self.output_col is None:
            data[columns[0]] = result
            for column in sorted(columns[1:], reverse=True):
                del data[column]
        elif self.output_col == -1:
            data.append(result)
        else:
            data[self.output_col] = result

    def __iter__(self):
        for data in self.datapipe:
            yield self._apply_fn(data)

    def __len__(self):
        return len(self.datapipe)


def _by_column(functions, chunk):
    """The columns of a chunk of data frames, each by its own function."""
    return tuple(functions[name](chunk[name]) if name in functions else chunk[name] for name in chunk.columns)


class CollatorIterDataPipe(MapperIterDataPipe):
    """Batches (lists of samples) as tensors, by `default_collate` or a function of your own.

    >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([1, 2, 3]).batch(2).collate())
    [tensor([1, 2]), tensor([3])]
    """

    def __init__(self, datapipe, conversion=default_collate, collate_fn=None):
        fn = conversion if collate_fn is None else collate_fn
        super().__init__(datapipe, functools.partial(_by_column, fn) if isinstance(fn, dict) else fn)
