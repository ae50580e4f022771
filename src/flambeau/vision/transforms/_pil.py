"""The operations on Pillow images; Pillow and NumPy are imported when the first one runs."""

import importlib
from numbers import Number

from ... import from_numpy, frombuffer, uint8
from ..._shown import shown
from ._jpeg import rows_above
from ._kinds import PILLOW, pillow

#: the dtype in which NumPy reads a mode that has no bytes
_WIDE = {"I": "int32", "I;16": "int16", "F": "float32"}


_TOOLS = {"ImageEnhance": "PIL.ImageEnhance", "ImageOps": "PIL.ImageOps"}


def _tool(name):
    return importlib.import_module(_TOOLS[name])


def as_tensor(picture):
    """[channels, height, width] with the image's own values."""
    if picture.mode in _WIDE:
        numpy = importlib.import_module("numpy")
        values = from_numpy(numpy.array(picture, _WIDE[picture.mode]))
        return values.view(1, picture.height, picture.width)
    if picture.mode == "1":
        picture = picture.convert("L")
    bands = len(picture.getbands())
    data = frombuffer(bytearray(picture.tobytes()), dtype=uint8) if picture.width * picture.height else None
    if data is None:
        raise ValueError(f"an image of size {picture.size} has no pixels")
    return data.view(picture.height, picture.width, bands).permute(2, 0, 1)


def crop(picture, top, left, height, width):
    return (rows_above(picture, top + height) or picture).crop((left, top, left + width, top + height))


def hflip(picture):
    return picture.transpose(0)


def vflip(picture):
    return picture.transpose(1)


def resize(picture, height, width, mode):
    return picture.resize((width, height), PILLOW[mode])


def fill_for(picture, fill, where):
    """What Pillow takes as a color of this image: a number, or one per band."""
    bands = len(picture.getbands())
    if fill is None:
        fill = 0
    if isinstance(fill, Number) and bands > 1:
        fill = (fill,) * bands
    if isinstance(fill, (list, tuple)):
        if len(fill) == 1:
            fill = tuple(fill) * bands
        if len(fill) != bands:
            raise ValueError(f"{where}: fill has {len(fill)} values for an image of {bands} bands ({picture.mode})")
        fill = tuple(fill) if bands > 1 else fill[0]
    if picture.mode == "F":
        return fill
    return tuple(int(v) for v in fill) if isinstance(fill, tuple) else int(fill)


def pad(picture, left, top, right, bottom, fill, padding_mode):
    if padding_mode == "constant":
        return _pad_constant(picture, left, top, right, bottom, fill)
    if min(left, top, right, bottom) < 0:
        picture = crop(picture, max(-top, 0), max(-left, 0), picture.height - max(-top, 0) - max(-bottom, 0),
                       picture.width - max(-left, 0) - max(-right, 0))
    sides = ((max(top, 0), max(bottom, 0)), (max(left, 0), max(right, 0)))
    numpy = importlib.import_module("numpy")
    values = numpy.asarray(picture)
    more = ((0, 0),) * (values.ndim - 2)
    out = pillow().fromarray(numpy.pad(values, (*sides, *more), mode=padding_mode))
    if picture.mode == "P":
        out.putpalette(picture.getpalette())
    return out


def _pad_constant(picture, left, top, right, bottom, fill):
    if len(picture.getbands()) == 1 and isinstance(fill, (list, tuple)) and len(fill) == 3:
        fill = fill[0]
    size = (picture.width + left + right, picture.height + top + bottom)
    out = pillow().new(picture.mode, size, fill_for(picture, fill, "pad"))
    if picture.mode == "P":
        out.putpalette(picture.getpalette())
    out.paste(picture, (left, top))
    return out


def affine(picture, matrix, mode, fill):
    return picture.transform(picture.size, 0, matrix, PILLOW[mode], fillcolor=fill_for(picture, fill, "affine"))


def rotate(picture, angle, mode, expand, center, fill):
    return picture.rotate(angle, PILLOW[mode], expand, center, fillcolor=fill_for(picture, fill, "rotate"))


def perspective(picture, coefficients, mode, fill):
    return picture.transform(picture.size, 2, coefficients, PILLOW[mode],
                             fillcolor=fill_for(picture, fill, "perspective"))


def _enhanced(kind):
    def enhance(picture, factor):
        return getattr(_tool("ImageEnhance"), kind)(picture).enhance(factor)
    return enhance


brightness, contrast, saturation, sharpness = map(_enhanced, ("Brightness", "Contrast", "Color", "Sharpness"))


def hue(picture, factor):
    """The hue turned by `factor` of a circle; pictures without color stay."""
    if picture.mode in ("1", "L", "I", "F"):
        return picture
    turn = int(factor * 255) % 256
    h, s, v = picture.convert("HSV").split()
    h = h.point([(value + turn) % 256 for value in range(256)])
    return pillow().merge("HSV", (h, s, v)).convert(picture.mode)


def gamma(picture, exponent, gain):
    table = [int(255.999 * gain * (value / 255) ** exponent) for value in range(256)]
    return picture.convert("RGB").point(table * 3).convert(picture.mode)


def grayscale(picture, channels):
    gray = picture.convert("L")
    if channels == 1:
        return gray
    if channels == 3:
        return pillow().merge("RGB", (gray, gray, gray))
    raise ValueError(f"to_grayscale: num_output_channels must be 1 or 3, got {shown(channels)}")


def _by_ops(name):
    def run(picture, *values):
        return getattr(_tool("ImageOps"), name)(picture, *values)
    return run


invert, posterize, solarize, autocontrast, equalize = map(
    _by_ops, ("invert", "posterize", "solarize", "autocontrast", "equalize"))
