"""Transforms (v1) of where pixels are: sizes, crops, flips, turns, tilts."""

from collections.abc import Sequence

from ..._shown import shown
from ...nn import Module
from . import _color, _draws
from . import functional as F
from ._kinds import InterpolationMode, mode_of, pair, size_of


class Resize(Module):
    """Resized to (height, width), or so that the shorter side has a size."""

    def __init__(self, size, interpolation=InterpolationMode.BILINEAR, max_size=None, antialias=True):
        super().__init__()
        check_size(size, "Resize")
        self.size, self.max_size, self.antialias = size, max_size, antialias
        self.interpolation = mode_of(interpolation, "Resize")

    def forward(self, img):
        return F.resize(img, self.size, self.interpolation, self.max_size, self.antialias)

    def __repr__(self):
        return (f"{type(self).__name__}(size={self.size}, interpolation={self.interpolation.value}, "
                f"max_size={self.max_size}, antialias={self.antialias})")


def check_size(size, where):
    """TypeError or ValueError unless it is a number or one or two of them."""
    if not isinstance(size, (int, Sequence)):
        raise TypeError(f"{where}: size must be a number or (height, width), got {shown(size)}")
    if isinstance(size, Sequence) and len(size) not in (1, 2):
        raise ValueError(f"{where}: size must be a number or (height, width), got {shown(size)}")


class CenterCrop(Module):
    """The middle of the picture."""

    def __init__(self, size):
        super().__init__()
        self.size = pair(size, "CenterCrop")

    def forward(self, img):
        return F.center_crop(img, self.size)

    def __repr__(self):
        return f"{type(self).__name__}(size={self.size})"


class Pad(Module):
    """Padded on all sides."""

    def __init__(self, padding, fill=0, padding_mode="constant"):
        super().__init__()
        if not isinstance(padding, (int, tuple, list)):
            raise TypeError(f"Pad: padding is a number or 1, 2 or 4 of them, got {shown(padding)}")
        if not isinstance(fill, (int, float, str, tuple, list)):
            raise TypeError(f"Pad: fill is a number or one per channel, got {shown(fill)}")
        if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
            raise ValueError(f"Pad: padding_mode must be 'constant', 'edge', 'reflect' or 'symmetric', "
                             f"got {shown(padding_mode)}")
        if isinstance(padding, (tuple, list)) and len(padding) not in (1, 2, 4):
            raise ValueError(f"Pad: padding is a number or 1, 2 or 4 of them, got {shown(padding)}")
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode

    def forward(self, img):
        return F.pad(img, self.padding, self.fill, self.padding_mode)

    def __repr__(self):
        return f"{type(self).__name__}(padding={self.padding}, fill={self.fill}, padding_mode={self.padding_mode})"


class RandomCrop(Module):
    """A window at a drawn place."""

    def __init__(self, size, padding=None, pad_if_needed=False, fill=0, padding_mode="constant"):
        super().__init__()
        self.size = tuple(pair(size, "RandomCrop"))
        self.padding, self.pad_if_needed, self.fill, self.padding_mode = padding, pad_if_needed, fill, padding_mode

    @staticmethod
    def get_params(img, output_size):
        """(top, left, height, width)."""
        return *_draws.crop(size_of(img), output_size), *output_size

    def forward(self, img):
        if self.padding is not None:
            img = F.pad(img, self.padding, self.fill, self.padding_mode)
        height, width = size_of(img)
        if self.pad_if_needed and width < self.size[1]:
            img = F.pad(img, [self.size[1] - width, 0], self.fill, self.padding_mode)
        if self.pad_if_needed and height < self.size[0]:
            img = F.pad(img, [0, self.size[0] - height], self.fill, self.padding_mode)
        return F.crop(img, *self.get_params(img, self.size))

    def __repr__(self):
        return f"{type(self).__name__}(size={self.size}, padding={self.padding})"


class _Flip(Module):
    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def __repr__(self):
        return f"{type(self).__name__}(p={self.p})"


class RandomHorizontalFlip(_Flip):
    """Left and right exchanged with probability p."""

    def forward(self, img):
        return F.hflip(img) if _draws.chance(self.p) else img


class RandomVerticalFlip(_Flip):
    """Top and bottom exchanged with probability p."""

    def forward(self, img):
        return F.vflip(img) if _draws.chance(self.p) else img


class RandomResizedCrop(Module):
    """A window of drawn size, shape and place, resized."""

    def __init__(self, size, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3), interpolation=InterpolationMode.BILINEAR,
                 antialias=True):
        super().__init__()
        for name, limits in (("scale", scale), ("ratio", ratio)):
            if not isinstance(limits, Sequence):
                raise TypeError(f"RandomResizedCrop: {name} must be (low, high), got {shown(limits)}")
        self.size = pair(size, "RandomResizedCrop")
        self.scale, self.ratio, self.antialias = scale, ratio, antialias
        self.interpolation = mode_of(interpolation, "RandomResizedCrop")

    @staticmethod
    def get_params(img, scale, ratio):
        """(top, left, height, width)."""
        return _draws.resized_crop(size_of(img), scale, ratio)

    def forward(self, img):
        return F.resized_crop(img, *self.get_params(img, self.scale, self.ratio), self.size, self.interpolation,
                              antialias=self.antialias)

    def __repr__(self):
        scale, ratio = (tuple(round(v, 4) for v in limits) for limits in (self.scale, self.ratio))
        return (f"{type(self).__name__}(size={self.size}, scale={scale}, ratio={ratio}, "
                f"interpolation={self.interpolation.value}, antialias={self.antialias})")


class FiveCrop(Module):
    """The four corners and the center."""

    def __init__(self, size):
        super().__init__()
        self.size = pair(size, "FiveCrop")

    def forward(self, img):
        return F.five_crop(img, self.size)

    def __repr__(self):
        return f"{type(self).__name__}(size={self.size})"


class TenCrop(Module):
    """The four corners and the center, of the picture and of its mirror image."""

    def __init__(self, size, vertical_flip=False):
        super().__init__()
        self.size, self.vertical_flip = pair(size, "TenCrop"), vertical_flip

    def forward(self, img):
        return F.ten_crop(img, self.size, self.vertical_flip)

    def __repr__(self):
        return f"{type(self).__name__}(size={self.size}, vertical_flip={self.vertical_flip})"


class RandomPerspective(Module):
    """Tilted by a drawn amount with probability p."""

    def __init__(self, distortion_scale=0.5, p=0.5, interpolation=InterpolationMode.BILINEAR, fill=0):
        super().__init__()
        self.p, self.distortion_scale = p, distortion_scale
        self.interpolation = mode_of(interpolation, "RandomPerspective")
        self.fill = _fill(fill, "RandomPerspective")

    @staticmethod
    def get_params(width, height, distortion_scale):
        """(start points, end points)."""
        return _draws.perspective(width, height, distortion_scale)

    def forward(self, img):
        channels, height, width = F.get_dimensions(img)
        if not _draws.chance(self.p):
            return img
        start, end = self.get_params(width, height, self.distortion_scale)
        return F.perspective(img, start, end, self.interpolation, _spread(self.fill, channels))

    def __repr__(self):
        return f"{type(self).__name__}(p={self.p})"


def _fill(fill, where):
    if fill is None:
        return 0
    if not isinstance(fill, (int, float, Sequence)):
        raise TypeError(f"{where}: fill must be a number or one per channel, got {shown(fill)}")
    return fill


def _spread(fill, channels):
    """One number per channel."""
    if isinstance(fill, (int, float)):
        return [float(fill)] * channels
    return [float(f) for f in fill]


class RandomRotation(Module):
    """Turned by a drawn angle."""

    def __init__(self, degrees, interpolation=InterpolationMode.NEAREST, expand=False, center=None, fill=0):
        super().__init__()
        self.degrees = _draws.angles(degrees, "degrees", "RandomRotation")
        self.center, self.expand, self.fill = _center(center, "RandomRotation"), expand, _fill(fill, "RandomRotation")
        self.interpolation = mode_of(interpolation, "RandomRotation")

    @staticmethod
    def get_params(degrees):
        """An angle."""
        return _draws.uniform(float(degrees[0]), float(degrees[1]))

    def forward(self, img):
        fill = _spread(self.fill, F.get_image_num_channels(img))
        return F.rotate(img, self.get_params(self.degrees), self.interpolation, self.expand, self.center, fill)

    def __repr__(self):
        center = f", center={self.center}" if self.center is not None else ""
        return (f"{type(self).__name__}(degrees={self.degrees}, interpolation={self.interpolation.value}, "
                f"expand={self.expand}{center}, fill={self.fill})")


def _center(center, where):
    if center is not None:
        _draws.angles(center if not isinstance(center, (int, float)) else None, "center", where)
    return center


class RandomAffine(Module):
    """Turned, moved, scaled and sheared by drawn amounts; translate is a part of the picture's sides."""

    def __init__(self, degrees, translate=None, scale=None, shear=None, interpolation=InterpolationMode.NEAREST, fill=0,
                 center=None):
        super().__init__()
        self.degrees = _draws.angles(degrees, "degrees", "RandomAffine")
        self.translate, self.scale = check_ranges(translate, scale, "RandomAffine")
        self.shear = None if shear is None else _draws.angles(shear, "shear", "RandomAffine", (2, 4))
        self.interpolation = mode_of(interpolation, "RandomAffine")
        self.fill, self.center = _fill(fill, "RandomAffine"), _center(center, "RandomAffine")

    @staticmethod
    def get_params(degrees, translate, scale_ranges, shears, img_size):
        """(angle, (tx, ty), scale, (sx, sy)) for a picture of img_size (width, height)."""
        return _draws.affine(degrees, translate, scale_ranges, shears, (img_size[1], img_size[0]))

    def forward(self, img):
        channels, height, width = F.get_dimensions(img)
        chosen = self.get_params(self.degrees, self.translate, self.scale, self.shear, [width, height])
        return F.affine(img, *chosen, interpolation=self.interpolation, fill=_spread(self.fill, channels),
                        center=self.center)

    def __repr__(self):
        parts = [f"degrees={self.degrees}"]
        parts += [f"{name}={getattr(self, name)}" for name in ("translate", "scale", "shear")
                  if getattr(self, name) is not None]
        if self.interpolation is not InterpolationMode.NEAREST:
            parts.append(f"interpolation={self.interpolation.value}")
        parts += [f"{name}={getattr(self, name)}" for name, usual in (("fill", 0), ("center", None))
                  if getattr(self, name) != usual]
        return f"{type(self).__name__}({', '.join(parts)})"


def check_ranges(translate, scale, where):
    """The two, after their values were checked."""
    for name, values in (("translate", translate), ("scale", scale)):
        if values is not None and (not isinstance(values, Sequence) or len(values) != 2):
            raise (TypeError if not isinstance(values, Sequence) else ValueError)(
                f"{where}: {name} must be two numbers, got {shown(values)}")
    if translate is not None and not all(0.0 <= t <= 1.0 for t in translate):
        raise ValueError(f"{where}: translate must be two parts of the sides, between 0 and 1, got {shown(translate)}")
    if scale is not None and not all(s > 0 for s in scale):
        raise ValueError(f"{where}: scale must be positive, got {shown(scale)}")
    return translate, scale


class ElasticTransform(Module):
    """Bent by smooth noise: alpha says how far, sigma how smoothly."""

    def __init__(self, alpha=50.0, sigma=5.0, interpolation=InterpolationMode.BILINEAR, fill=0):
        super().__init__()
        self.alpha, self.sigma = elastic_pair(alpha, "alpha"), elastic_pair(sigma, "sigma")
        self.interpolation = mode_of(interpolation, "ElasticTransform")
        self.fill = [float(f) for f in fill] if isinstance(fill, (list, tuple)) else [float(fill)]

    @staticmethod
    def get_params(alpha, sigma, size):
        """A displacement [1, height, width, 2]."""
        return _draws.displacement(alpha, sigma, size, _color.gaussian_blur)

    def forward(self, img):
        displacement = self.get_params(self.alpha, self.sigma, list(size_of(img)))
        return F.elastic_transform(img, displacement, self.interpolation, self.fill)

    def __repr__(self):
        return (f"{type(self).__name__}(alpha={self.alpha}, sigma={self.sigma}, interpolation={self.interpolation}, "
                f"fill={self.fill})")


def elastic_pair(value, name):
    """[for x, for y] of one number or two."""
    if isinstance(value, (int, float)):
        return [float(value)] * 2
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"ElasticTransform: {name} must be a number or two, got {shown(value)}")
    if len(value) not in (1, 2):
        raise ValueError(f"ElasticTransform: {name} must be a number or two, got {shown(value)}")
    return [float(v) for v in value] * (3 - len(value))
