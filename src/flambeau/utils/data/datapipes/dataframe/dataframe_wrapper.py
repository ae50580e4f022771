"""What datapipes do with data frames, by pandas or by a library of the user's that has the same functions."""

import importlib
import sys


class PandasWrapper:
    """Data frames of pandas. Another library is used by `set_df_wrapper`, given a class with these functions."""

    @classmethod
    def create_dataframe(cls, data, columns):
        """The frame of these rows."""
        return _pandas().DataFrame(data, columns=columns)

    @classmethod
    def is_dataframe(cls, data):
        """Whether it is a frame."""
        return "pandas" in sys.modules and isinstance(data, _pandas().DataFrame)

    @classmethod
    def is_column(cls, data):
        """Whether it is a column of a frame."""
        return "pandas" in sys.modules and isinstance(data, _pandas().Series)

    @classmethod
    def iterate(cls, data):
        """The rows of a frame as tuples, or the elements of a column."""
        return data.itertuples(index=False) if cls.is_dataframe(data) else iter(data)

    @classmethod
    def concat(cls, buffer):
        """One frame of several."""
        return _pandas().concat(buffer)

    @classmethod
    def get_item(cls, data, idx):
        """The frame of one row."""
        return data[idx:idx + 1]

    @classmethod
    def get_len(cls, df):
        """How many rows there are."""
        return len(df.index)

    @classmethod
    def get_columns(cls, df):
        """The names of the columns."""
        return list(df.columns.values.tolist())


def _pandas():
    try:
        return importlib.import_module("pandas")
    except ModuleNotFoundError:
        raise ModuleNotFoundError("data frames need the package pandas (pip install pandas), or set_df_wrapper for "
                                  "another library") from None


_used = [PandasWrapper]


def get_df_wrapper():
    """The class whose functions are used."""
    return _used[0]


def set_df_wrapper(wrapper):
    """Uses another library: a class with the functions of PandasWrapper."""
    _used[0] = wrapper


def create_dataframe(data, columns=None):
    """The frame of these rows."""
    return _used[0].create_dataframe(data, columns)


def is_dataframe(data):
    """Whether it is a frame."""
    return _used[0].is_dataframe(data)


def get_columns(data):
    """The names of the columns."""
    return _used[0].get_columns(data)


def is_column(data):
    """Whether it is a column of a frame."""
    return _used[0].is_column(data)


def concat(buffer):
    """One frame of several."""
    return _used[0].concat(buffer)


def iterate(data):
    """The rows of a frame, or the elements of a column."""
    return _used[0].iterate(data)


def get_item(data, idx):
    """The frame of one row."""
    return _used[0].get_item(data, idx)


def get_len(df):
    """How many rows there are."""
    return _used[0].get_len(df)
