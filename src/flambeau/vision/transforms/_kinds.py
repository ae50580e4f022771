"""What a picture is (a Pillow image or a tensor), how it is asked for its size, and the kinds of interpolation."""

import sys
from enum import Enum
from numbers import Number

from ... import Tensor
from ..._shown import shown


class InterpolationMode(Enum):
    """How values between pixels are found; box, hamming and lanczos exist for Pillow images only."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


#: Pillow's numbers for them
PILLOW = {InterpolationMode.NEAREST: 0, InterpolationMode.LANCZOS: 1, InterpolationMode.BILINEAR: 2,
          InterpolationMode.BICUBIC: 3, InterpolationMode.BOX: 4, InterpolationMode.HAMMING: 5,
          InterpolationMode.NEAREST_EXACT: 0}
_FROM_PILLOW = {0: InterpolationMode.NEAREST, 1: InterpolationMode.LANCZOS, 2: InterpolationMode.BILINEAR,
                3: InterpolationMode.BICUBIC, 4: InterpolationMode.BOX, 5: InterpolationMode.HAMMING}


def mode_of(interpolation, where):
    """An InterpolationMode from itself, its name or Pillow's number."""
    if isinstance(interpolation, InterpolationMode):
        return interpolation
    if isinstance(interpolation, str):
        try:
            return InterpolationMode(interpolation.lower())
        except ValueError:
            pass
    if type(interpolation) is not bool and isinstance(interpolation, int) and interpolation in _FROM_PILLOW:
        return _FROM_PILLOW[interpolation]
    kind = ValueError if isinstance(interpolation, (str, int)) else TypeError
    raise kind(f"{where}: interpolation must be an InterpolationMode, its name or Pillow's number (0 to 5), "
               f"got {shown(interpolation)}")


def pillow(where="this"):
    """Pillow's module Image, or an ImportError that says what needs it."""
    try:
        from PIL import Image
    except ImportError:
        raise ImportError(f"{where} needs Pillow: pip install pillow") from None
    return Image


def is_pil(picture):
    """Whether this is a Pillow image; Pillow is not imported for it."""
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(picture, module.Image)


def check_picture(picture, where):
    """TypeError unless it is a Pillow image or a tensor."""
    if not (isinstance(picture, Tensor) or is_pil(picture)):
        raise TypeError(f"{where}: a picture is a Pillow image or a tensor, got {type(picture).__name__}")


def check_tensor(picture, where):
    """TypeError unless it is a tensor with height and width."""
    if not isinstance(picture, Tensor) or picture.dim() < 2:
        raise TypeError(f"{where}: a picture as a tensor has the dimensions [..., height, width], got {shown(picture)}")


def channels_of(picture):
    """The number of channels."""
    if is_pil(picture):
        return len(picture.getbands())
    return 1 if picture.dim() == 2 else picture.shape[-3]


def size_of(picture):
    """(height, width)."""
    if is_pil(picture):
        return picture.height, picture.width
    return picture.shape[-2], picture.shape[-1]


def pair(size, where):
    """(height, width) from a number or from one or two."""
    if isinstance(size, Number):
        return int(size), int(size)
    if isinstance(size, (list, tuple)) and len(size) in (1, 2):
        return (size[0], size[0]) if len(size) == 1 else tuple(size)
    kind = ValueError if isinstance(size, (list, tuple)) else TypeError
    raise kind(f"{where}: size must be a number or (height, width), got {shown(size)}")


def largest(dtype):
    """The value of white: 1 for floats, the largest number of an integer dtype."""
    if dtype.is_floating_point:
        return 1
    bits = dtype.itemsize * 8
    return 1 if str(dtype).endswith("bool") else 2 ** bits - 1 if not dtype.is_signed else 2 ** (bits - 1) - 1
