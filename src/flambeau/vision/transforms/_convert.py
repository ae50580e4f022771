"""Between Pillow images, arrays of NumPy and tensors."""

import importlib

from ... import Tensor, from_numpy, uint8
from ... import get_default_dtype as default_dtype
from ..._shown import shown
from . import _pil
from ._kinds import is_pil, pillow

#: how Pillow calls pictures of one channel, by the dtype of their values
_GRAY = {"uint8": "L", "int16": "I;16", "uint16": "I;16", "int32": "I", "float32": "F"}
#: modes that a picture of this many channels may be given
_MODES = {2: ("LA",), 3: ("RGB", "YCbCr", "HSV"), 4: ("RGBA", "CMYK", "RGBX")}


def is_array(value):
    return type(value).__module__ == "numpy" and hasattr(value, "ndim")


def pil_to_tensor(pic):
    """A Pillow image as [channels, height, width], with its own values."""
    if not is_pil(pic):
        raise TypeError(f"pil_to_tensor: a Pillow image is needed, got {type(pic).__name__}")
    return _pil.as_tensor(pic)


def to_tensor(pic):
    """A Pillow image or array [height, width, channels] as [channels, height, width]; bytes become 0.0 to 1.0."""
    if is_array(pic):
        if pic.ndim not in (2, 3):
            raise ValueError(f"to_tensor: an array has 2 or 3 dimensions, got {pic.ndim}")
        values = from_numpy((pic[:, :, None] if pic.ndim == 2 else pic).transpose(2, 0, 1)).contiguous()
        return values.to(default_dtype()).div_(255) if values.dtype == uint8 else values
    if not is_pil(pic):
        raise TypeError(f"to_tensor: a Pillow image or a NumPy array is needed, got {type(pic).__name__}")
    values = _pil.as_tensor(pic).contiguous()
    return values.to(default_dtype()).div_(255) if values.dtype == uint8 else values


def to_pil_image(pic, mode=None):
    """A tensor [channels, height, width] or array [height, width, channels] as a Pillow image."""
    image = pillow("to_pil_image")
    if isinstance(pic, Tensor):
        values = _rows_of(pic, mode)
    elif is_array(pic):
        values = _checked(pic)
    else:
        raise TypeError(f"to_pil_image: a tensor or a NumPy array is needed, got {type(pic).__name__}")
    channels = values.shape[2]
    if channels == 1:
        return _gray_image(image, values[:, :, 0], mode)
    return _color_image(image, values, channels, mode)


def _rows_of(pic, mode):
    if pic.dim() not in (2, 3):
        raise ValueError(f"to_pil_image: a tensor has 2 or 3 dimensions, got {pic.dim()}")
    pic = pic.unsqueeze(0) if pic.dim() == 2 else pic
    if pic.shape[0] > 4:
        raise ValueError(f"to_pil_image: a picture has at most 4 channels, got {pic.shape[0]}")
    if pic.is_floating_point() and mode != "F":
        pic = pic.mul(255).to(uint8)
    return pic.permute(1, 2, 0).contiguous().numpy()


def _checked(pic):
    if pic.ndim not in (2, 3):
        raise ValueError(f"to_pil_image: an array has 2 or 3 dimensions, got {pic.ndim}")
    pic = pic[:, :, None] if pic.ndim == 2 else pic
    if pic.shape[-1] > 4:
        raise ValueError(f"to_pil_image: a picture has at most 4 channels, got {pic.shape[-1]}")
    return pic


def _gray_image(image, values, mode):
    usual = _GRAY.get(values.dtype.name)
    if usual is None:
        raise TypeError(f"to_pil_image: Pillow has no gray image of {values.dtype}")
    if mode is not None and mode != usual:
        raise ValueError(f"to_pil_image: mode {shown(mode)} does not hold {values.dtype}; that would be {shown(usual)}")
    return image.fromarray(importlib.import_module("numpy").ascontiguousarray(values))


def _color_image(image, values, channels, mode):
    if mode is not None and mode not in _MODES[channels]:
        raise ValueError(f"to_pil_image: {channels} channels make the modes {_MODES[channels]}, not {shown(mode)}")
    if values.dtype.name != "uint8":
        raise TypeError(f"to_pil_image: colors are bytes, got {values.dtype}")
    values = importlib.import_module("numpy").ascontiguousarray(values)
    return image.frombytes(mode or _MODES[channels][0], (values.shape[1], values.shape[0]), values.tobytes())
