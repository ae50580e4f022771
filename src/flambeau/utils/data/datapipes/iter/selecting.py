"""Some of the samples: `filter`."""

from ....._shown import shown
from ..dataframe import dataframe_wrapper as frames
from ..datapipe import IterDataPipe
from ..utils.common import check_function, validate_input_col


class FilterIterDataPipe(IterDataPipe):
    """The samples for which `filter_fn` is True; it gets the whole sample, or the columns `input_col` of it.

    >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(["a", "2", "3"]).filter(str.isdigit))
    ['2', '3']
    """

    def __init__(self, datapipe, filter_fn, input_col=None):
        check_function(filter_fn, "filter")
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col
        validate_input_col(filter_fn, input_col)

    def _apply_filter_fn(self, data):
        columns = self.input_col
        if columns is None:
            return self.filter_fn(data)
        if isinstance(columns, (list, tuple)):
            return self.filter_fn(*(data[c] for c in columns))
        return self.filter_fn(data[columns])

    def __iter__(self):
        for data in self.datapipe:
            wanted = self._apply_filter_fn(data)
            if frames.is_column(wanted):
                yield from self._rows(data, wanted)
            elif not isinstance(wanted, bool):
                raise ValueError(f"filter: filter_fn must give True or False, got {shown(wanted)}; bool(…) makes one")
            elif wanted:
                yield data

    def _rows(self, data, wanted):
        """Of a data frame, the rows whose element of a column of truth values is true."""
        rows = [frames.get_item(data, k) for k, keep in enumerate(frames.iterate(wanted)) if keep]
        if rows:
            yield frames.concat(rows)
