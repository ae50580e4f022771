"""Files of optical flow and of disparity: Middlebury's .flo, PFM, and PNG pictures of 16 bits."""

import importlib

from ..._shown import shown
from ..transforms._kinds import pillow


def _numpy():
    return importlib.import_module("numpy")


def read_flo(path):
    """The flow [2, height, width] of a .flo file: a magic number, width and height, then pairs of floats."""
    numpy = _numpy()
    with open(path, "rb") as file:
        if file.read(4) != b"PIEH":
            raise ValueError(f"{shown(str(path))} is no .flo file: it does not begin with PIEH")
        width, height = numpy.frombuffer(file.read(8), "<i4").tolist()
        data = numpy.frombuffer(file.read(), "<f4")
    if width < 1 or height < 1 or len(data) < 2 * width * height:
        raise ValueError(f"{shown(str(path))} has {len(data)} numbers, too few for a flow of {height} x {width}")
    return data[:2 * width * height].reshape(height, width, 2).transpose(2, 0, 1).astype(numpy.float32)


def read_pfm(path):
    """The floats [channels, height, width] of a PFM file, whose rows are written from below."""
    numpy = _numpy()
    with open(path, "rb") as file:
        kind = file.readline().strip()
        if kind not in (b"PF", b"Pf"):
            raise ValueError(f"{shown(str(path))} is no PFM file: it does not begin with PF or Pf")
        try:
            width, height = map(int, file.readline().split())
            order = "<" if float(file.readline()) < 0 else ">"
        except ValueError:
            raise ValueError(f"{shown(str(path))} has no size and scale after the letters of PFM") from None
        data = numpy.frombuffer(file.read(), f"{order}f4")
    channels = 3 if kind == b"PF" else 1
    if width < 1 or height < 1 or len(data) != channels * width * height:
        raise ValueError(f"{shown(str(path))} has {len(data)} numbers, not those of {height} x {width} x {channels}")
    return data.reshape(height, width, channels)[::-1].transpose(2, 0, 1).astype(numpy.float32)


def read_png16(path):
    """The whole numbers of a PNG file as int32: [height, width], or [height, width, 3] in color.

    Pillow keeps 8 of the 16 bits of a color; it is asked twice, for the upper byte and for the lower one.
    """
    numpy, image = _numpy(), pillow("read_png16")
    with image.open(path) as picture:
        raw = picture.tile[0][3] if picture.tile else None
        if (raw[0] if isinstance(raw, tuple) else raw) != "RGB;16B":
            return numpy.asarray(picture).astype(numpy.int32)
        upper = numpy.asarray(picture).astype(numpy.int32)
    with image.open(path) as picture:
        codec, extents, offset, _ = picture.tile[0]
        picture.tile = [(codec, extents, offset, "RGB;16L" if isinstance(raw, str) else ("RGB;16L", *raw[1:]))]
        return upper * 256 + numpy.asarray(picture)
