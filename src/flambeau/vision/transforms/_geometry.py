"""Where pixels go when they stay on the grid: sizes, resizing, cropping, padding, changes of dtype. On tensors."""

from ... import arange, float32, float64, uint8
from ... import bool as boolean
from ..._shown import shown
from ...nn import functional as nn
from ._kinds import InterpolationMode, largest, pair

_NATIVE = (InterpolationMode.NEAREST, InterpolationMode.NEAREST_EXACT)
_SMOOTH = (InterpolationMode.BILINEAR, InterpolationMode.BICUBIC)


def resized(size, wanted, max_size=None, where="resize"):
    """(height, width) that `resize` gives: one number is the shorter side, max_size bounds the longer one."""
    if isinstance(wanted, int):
        wanted = [wanted]
    if wanted is None:
        if max_size is None:
            raise ValueError(f"{where}: size is None, so max_size must say what the longer side becomes")
        wanted = [None]
    elif len(wanted) not in (1, 2):
        raise ValueError(f"{where}: size has one or two numbers, got {shown(wanted)}")
    if len(wanted) == 2:
        if max_size is not None:
            raise ValueError(f"{where}: max_size bounds the longer side where size is one number, got {shown(wanted)}")
        return wanted[0], wanted[1]
    short, long = min(size), max(size)
    new_short, new_long = _sides(short, long, wanted[0], max_size, where)
    return (new_short, new_long) if size[0] <= size[1] else (new_long, new_short)


def _sides(short, long, wanted, max_size, where):
    if wanted is None:
        return int(max_size * short / long), max_size
    new_long = int(wanted * long / short)
    if max_size is None:
        return wanted, new_long
    if max_size <= wanted:
        raise ValueError(f"{where}: max_size ({shown(max_size)}) must be above the shorter side's size "
                         f"({shown(wanted)})")
    return (int(max_size * wanted / new_long), max_size) if new_long > max_size else (wanted, new_long)


def resize(image, height, width, mode, antialias, native_bytes):
    """Resize [..., height, width]; `native_bytes` resizes uint8 in whole numbers (v2), not through floats (v1)."""
    if (height, width) == tuple(image.shape[-2:]):
        return image
    if mode not in (*_NATIVE, *_SMOOTH):
        raise ValueError(f"resize: tensors are resized with nearest, nearest-exact, bilinear or bicubic, got {mode}")
    batch, planes = image.shape[:-2], image
    if image.numel() == 0:
        return image.new_empty((*batch, height, width))
    planes = image.reshape(1, -1, *image.shape[-2:]) if image.dim() < 4 else image.reshape(-1, *image.shape[-3:])
    keeps = planes.dtype in (float32, float64) or mode in _NATIVE or (native_bytes and image.dtype == uint8)
    values = planes if keeps else planes.to(float32)
    smooth = {"align_corners": False, "antialias": bool(antialias)} if mode in _SMOOTH else {}
    values = nn.interpolate(values, size=[height, width], mode=mode.value, **smooth)
    if values.dtype != image.dtype:
        if mode is InterpolationMode.BICUBIC:
            values = values.clamp(0, largest(image.dtype))
        values = values.round().to(image.dtype) if not image.is_floating_point() else values.to(image.dtype)
    return values.reshape(*batch, height, width)


def crop(image, top, left, height, width):
    """What the window shows; zeros where it looks beyond the picture."""
    h, w = image.shape[-2:]
    bottom, right = top + height, left + width
    inside = image[..., max(top, 0):max(bottom, 0), max(left, 0):max(right, 0)]
    if left < 0 or top < 0 or right > w or bottom > h:
        beyond = [max(min(right, 0) - left, 0), max(right - max(w, left), 0),
                  max(min(bottom, 0) - top, 0), max(bottom - max(h, top), 0)]
        return nn.pad(inside, beyond)
    return inside


def center(size, output):
    """(padding or None, top, left) that put a window of `output` into the middle of a picture of `size`."""
    height, width = size
    if output[1] > width or output[0] > height:
        across, down = max(output[1] - width, 0), max(output[0] - height, 0)
        padding = [across // 2, down // 2, (across + 1) // 2, (down + 1) // 2]
        width, height = width + across, height + down
    else:
        padding = None
    return padding, round((height - output[0]) / 2.0), round((width - output[1]) / 2.0)


def sides(padding, where="pad"):
    """[left, top, right, bottom] from one, two or four numbers."""
    if isinstance(padding, int):
        return [padding] * 4
    if not isinstance(padding, (list, tuple)):
        raise TypeError(f"{where}: padding is a number or 1, 2 or 4 of them, got {shown(padding)}")
    if len(padding) not in (1, 2, 4):
        raise ValueError(f"{where}: padding is a number or 1, 2 or 4 of them, got {shown(padding)}")
    return list(padding) * (4 // len(padding))


def pad(image, left, top, right, bottom, fill, padding_mode):
    """Padded on four sides; a negative number crops. `fill` is a number, or one per channel."""
    if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
        raise ValueError(f"pad: padding_mode must be 'constant', 'edge', 'reflect' or 'symmetric', "
                         f"got {shown(padding_mode)}")
    amounts = [left, right, top, bottom]
    if padding_mode == "constant":
        return _pad_constant(image, amounts, fill)
    if padding_mode == "symmetric":
        return _pad_symmetric(image, left, top, right, bottom)
    mode = "replicate" if padding_mode == "edge" else "reflect"
    values = image.reshape(-1, 1, *image.shape[-2:]) if image.dim() != 4 else image
    narrow = not (values.is_floating_point())
    values = nn.pad(values.to(float32) if narrow else values, amounts, mode=mode)
    values = values.to(image.dtype) if narrow else values
    return values.reshape(*image.shape[:-2], *values.shape[-2:])


def _pad_constant(image, amounts, fill):
    if isinstance(fill, (list, tuple)):
        if len(fill) > 1:
            color = image.new_tensor([float(v) for v in fill]).to(image.dtype).view(-1, 1, 1)
            out = nn.pad(image, amounts)
            inside = nn.pad(image.new_ones(image.shape[-2:], dtype=boolean), amounts, value=0)
            return out.where(inside, color)
        fill = fill[0]
    fill = 0 if fill is None else fill
    if image.dtype == boolean:
        return nn.pad(image.to(uint8), amounts, value=bool(fill)).to(boolean)
    return nn.pad(image, amounts, value=fill if image.is_floating_point() else int(fill))


def _mirrored(length, before, after):
    """The rows that `symmetric` shows: the edge is repeated, then what lies behind it."""
    inside = list(range(max(-before, 0), length - max(-after, 0)))
    return [*inside[:max(before, 0)][::-1], *inside, *inside[len(inside) - max(after, 0):][::-1]]


def _pad_symmetric(image, left, top, right, bottom):
    height, width = image.shape[-2:]
    if max(left, right) > width or max(top, bottom) > height:
        raise ValueError(f"pad: symmetric padding ({left}, {top}, {right}, {bottom}) is wider than the picture "
                         f"({height} x {width})")
    rows = arange(height)[_mirrored(height, top, bottom)]
    columns = arange(width)[_mirrored(width, left, right)]
    return image[..., rows[:, None], columns[None, :]]


def to_dtype(image, dtype, v2=False):
    """The same picture in another dtype, white staying white: 255 of uint8 is 1.0 of float32.

    v1 divides by 255, v2 multiplies by the rounded 1/255, which differs in the last bit.
    """
    if image.dtype == dtype:
        return image
    if image.is_floating_point():
        if dtype.is_floating_point:
            return image.to(dtype)
        if dtype.itemsize >= (8 if image.dtype == float64 else 4):
            raise RuntimeError(f"to_dtype: {image.dtype} has too few digits for the range of {dtype}")
        return image.mul(largest(dtype) + 1 - 1e-3).to(dtype)
    if dtype.is_floating_point:
        values, white = image.to(dtype), largest(image.dtype)
        return values.mul_(1.0 / white) if v2 else values.div_(white)
    return _rescaled(image, dtype)


def _rescaled(image, dtype):
    mine, other = largest(image.dtype), largest(dtype)
    if mine > other:
        return image.div((mine + 1) // (other + 1), rounding_mode="floor").to(dtype)
    return image.to(dtype) * ((other + 1) // (mine + 1))


def erase(image, top, left, height, width, value, inplace):
    image = image if inplace else image.clone()
    image[..., top:top + height, left:left + width] = value
    return image


def windows(size, crop_size, where):
    """(top, left) of the four corners and the center, in the order of `five_crop`."""
    height, width = size
    h, w = pair(crop_size, where)
    if w > width or h > height:
        raise ValueError(f"{where}: a window of {h} x {w} does not fit into the picture ({height} x {width})")
    middle = round((height - h) / 2.0), round((width - w) / 2.0)
    return (h, w), [(0, 0), (0, width - w), (height - h, 0), (height - h, width - w), middle]
