"""Videos, which are not read here: each name says what to use instead."""


def _refuse(name):
    raise NotImplementedError(
        f"vision.io.{name}: there is no video decoder here; read the frames with PyAV (`pip install av`: "
        "`[f.to_ndarray(format='rgb24') for f in av.open(path).decode(video=0)]`) or torchcodec, and make a tensor of "
        "them with flambeau.from_numpy")


def read_video(*args, **kwargs):
    """NotImplementedError, with a way to read the frames."""
    _refuse(f"read_video{_shape(args, kwargs)}")


def read_video_timestamps(*args, **kwargs):
    """NotImplementedError, with a way to read the frames."""
    _refuse(f"read_video_timestamps{_shape(args, kwargs)}")


def write_video(*args, **kwargs):
    """NotImplementedError, with what writes videos."""
    _refuse(f"write_video{_shape(args, kwargs)}")


def _shape(args, kwargs):
    """The file that was asked for."""
    first = args[0] if args else next(iter(kwargs.values()), "")
    return f"({str(first)[:60]!r})"


class VideoReader:
    """NotImplementedError, with a way to read the frames."""

    def __init__(self, *args, **kwargs):
        _refuse(f"VideoReader{_shape(args, kwargs)}")
