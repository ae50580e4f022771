"""Operations on data frames that are recorded before there is a frame: not available."""

_INSTEAD = ("operations on data frames are not recorded: map a function over the frames, which sees them as they are "
            "(docs/data.md)")


class CaptureDataFrame:
    """Not available."""

    _refused = _INSTEAD

    def __init__(self, schema_df=None):
        raise NotImplementedError(f"CaptureDataFrame: {_INSTEAD}")
