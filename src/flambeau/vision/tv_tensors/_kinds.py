"""What tensors of a picture's sample can mean: the picture, a film, a mask, boxes, points."""

from enum import Enum

from ..._shown import shown
from ..transforms._convert import pil_to_tensor
from ..transforms._kinds import is_pil
from ._tensor import TVTensor


class _Pixels(TVTensor):
    """[..., height, width], with as many dimensions as its kind needs."""

    _least = 0

    def __new__(cls, data, *, dtype=None, device=None, requires_grad=None):
        values = pil_to_tensor(data) if is_pil(data) else data
        values = cls._to_tensor(values, dtype, device, requires_grad)
        if values.dim() < cls._least:
            raise ValueError(f"{cls.__name__}: at least {cls._least} dimensions are needed, "
                             f"got shape {list(values.shape)}")
        return cls._of(cls._completed(values))

    @classmethod
    def _completed(cls, values):
        return values


class Image(_Pixels):
    """A picture: [..., channels, height, width]; [height, width] becomes one channel.

    >>> import flambeau
    >>> from flambeau.vision import tv_tensors
    >>> tv_tensors.Image(flambeau.zeros(4, 5)).shape
    torch.Size([1, 4, 5])
    """

    _least = 2

    @classmethod
    def _completed(cls, values):
        return values.unsqueeze(0) if values.dim() == 2 else values


class Video(_Pixels):
    """A film: [..., frames, channels, height, width]."""

    _least = 4


class Mask(_Pixels):
    """What each pixel belongs to: [..., height, width]."""


class BoundingBoxFormat(Enum):
    """What the numbers of a box are: two corners, a corner or the center with sizes, turned (R, degrees) or not."""

    XYXY = "XYXY"
    XYWH = "XYWH"
    CXCYWH = "CXCYWH"
    XYWHR = "XYWHR"
    CXCYWHR = "CXCYWHR"
    XYXYXYXY = "XYXYXYXY"


_ROTATED = (BoundingBoxFormat.XYWHR, BoundingBoxFormat.CXCYWHR, BoundingBoxFormat.XYXYXYXY)


def format_of(format):
    """A BoundingBoxFormat from itself or its name."""
    if isinstance(format, BoundingBoxFormat):
        return format
    try:
        return BoundingBoxFormat[format.upper()]
    except (KeyError, AttributeError):
        names = ", ".join(f.name for f in BoundingBoxFormat)
        raise ValueError(f"the format of boxes must be one of {names}, got {shown(format)}") from None


def is_rotated_bounding_format(format):
    """Whether boxes of this format may stand at an angle."""
    return format_of(format) in _ROTATED


def clamping_of(mode, more=()):
    """A mode of clamping, checked."""
    if mode is not None and mode not in ("hard", "soft", *more):
        raise ValueError(f"clamping_mode must be {', '.join(map(repr, ('hard', 'soft', *more)))} or None, "
                         f"got {shown(mode)}")
    return mode


class BoundingBoxes(TVTensor):
    """Boxes [n, 4] (5 or 8 numbers where they are turned) on a picture of `canvas_size` (height, width).

    >>> from flambeau.vision import tv_tensors
    >>> tv_tensors.BoundingBoxes([[1, 2, 3, 4]], format="XYXY", canvas_size=(10, 10))
    BoundingBoxes([[1, 2, 3, 4]], format=BoundingBoxFormat.XYXY, canvas_size=(10, 10), clamping_mode=soft)
    """

    _said = ("format", "canvas_size", "clamping_mode")

    def __new__(cls, data, *, format, canvas_size, clamping_mode="soft", dtype=None, device=None, requires_grad=None):
        values = cls._to_tensor(data, dtype, device, requires_grad)
        format = format_of(format)
        if values.dim() not in (1, 2):
            raise ValueError(f"BoundingBoxes: [boxes, numbers] are needed, got shape {list(values.shape)}")
        values = values.unsqueeze(0) if values.dim() == 1 else values
        if format in _ROTATED and not values.is_floating_point():
            raise ValueError(f"BoundingBoxes: boxes of format {format.name} must be floats, got {values.dtype}")
        return cls._of(values, format=format, canvas_size=canvas_size, clamping_mode=clamping_of(clamping_mode))

    @classmethod
    def _checked(cls, said):
        if "format" in said:
            said["format"] = format_of(said["format"])
        if "clamping_mode" in said:
            clamping_of(said["clamping_mode"])
        return said


class KeyPoints(TVTensor):
    """Points [..., 2] (x, y) on a picture of `canvas_size` (height, width)."""

    _said = ("canvas_size",)

    def __new__(cls, data, *, canvas_size, dtype=None, device=None, requires_grad=None):
        values = cls._to_tensor(data, dtype, device, requires_grad)
        values = values.unsqueeze(0) if values.dim() == 1 else values
        return cls._of(values, canvas_size=canvas_size)
