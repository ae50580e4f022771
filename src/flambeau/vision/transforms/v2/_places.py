"""Transforms (v2) of where pixels, boxes and points are."""

from collections.abc import Sequence

from .... import Tensor, rand
from ...._shown import shown
from ... import tv_tensors
from .. import _draws, _places
from .._geometry import sides
from .._kinds import InterpolationMode, mode_of, pair
from .._warp import perspective_coefficients
from . import functional as F
from ._transform import RandomlyApplied, Transform, fill_for, fills, get_bounding_boxes, query_size
from .functional._boxes import converted


class RandomHorizontalFlip(RandomlyApplied):
    """Left and right exchanged with probability p."""

    def transform(self, inpt, params):
        return self._call_kernel(F.horizontal_flip, inpt)


class RandomVerticalFlip(RandomlyApplied):
    """Top and bottom exchanged with probability p."""

    def transform(self, inpt, params):
        return self._call_kernel(F.vertical_flip, inpt)


class Resize(Transform):
    """Resized to (height, width), or so that the shorter side is `size`, or the longer `max_size` (size None)."""

    def __init__(self, size, interpolation=InterpolationMode.BILINEAR, max_size=None, antialias=True):
        super().__init__()
        if isinstance(size, int):
            size = [size]
        elif isinstance(size, Sequence) and len(size) in (1, 2):
            size = list(size)
        elif size is not None or max_size is None:
            raise ValueError(f"Resize: size must be a number, (height, width), or None and max_size, got {shown(size)}")
        mode_of(interpolation, "Resize")
        self.size, self.interpolation, self.max_size, self.antialias = size, interpolation, max_size, antialias

    def transform(self, inpt, params):
        return self._call_kernel(F.resize, inpt, self.size, interpolation=self.interpolation, max_size=self.max_size,
                                 antialias=self.antialias)


class CenterCrop(Transform):
    """The middle."""

    def __init__(self, size):
        super().__init__()
        self.size = pair(size, "CenterCrop")

    def transform(self, inpt, params):
        return self._call_kernel(F.center_crop, inpt, output_size=self.size)


class RandomResizedCrop(Transform):
    """A window of drawn size, shape and place, resized."""

    def __init__(self, size, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3), interpolation=InterpolationMode.BILINEAR,
                 antialias=True):
        super().__init__()
        self.size = pair(size, "RandomResizedCrop")
        for name, limits in (("scale", scale), ("ratio", ratio)):
            if not isinstance(limits, Sequence):
                raise TypeError(f"RandomResizedCrop: {name} must be (low, high), got {shown(limits)}")
        mode_of(interpolation, "RandomResizedCrop")
        self.scale, self.ratio, self.interpolation, self.antialias = scale, ratio, interpolation, antialias

    def make_params(self, flat_inputs):
        top, left, height, width = _draws.resized_crop(query_size(flat_inputs), self.scale, self.ratio)
        return {"top": top, "left": left, "height": height, "width": width}

    def transform(self, inpt, params):
        return self._call_kernel(F.resized_crop, inpt, **params, size=self.size, interpolation=self.interpolation,
                                 antialias=self.antialias)


class _Crops(Transform):
    """Several crops of a picture, which nothing else in a sample can follow."""

    def check_inputs(self, flat_inputs):
        for value in flat_inputs:
            if isinstance(value, (tv_tensors.BoundingBoxes, tv_tensors.Mask)):
                raise TypeError(f"{type(self).__name__}: {type(value).__name__} cannot be cropped several times")


class FiveCrop(_Crops):
    """The four corners and the center."""

    def __init__(self, size):
        super().__init__()
        self.size = pair(size, "FiveCrop")

    def transform(self, inpt, params):
        return self._call_kernel(F.five_crop, inpt, self.size)


class TenCrop(_Crops):
    """The four corners and the center, of the picture and of its mirror image."""

    def __init__(self, size, vertical_flip=False):
        super().__init__()
        self.size, self.vertical_flip = pair(size, "TenCrop"), vertical_flip

    def transform(self, inpt, params):
        return self._call_kernel(F.ten_crop, inpt, self.size, vertical_flip=self.vertical_flip)


class Pad(Transform):
    """Padded on all sides."""

    def __init__(self, padding, fill=0, padding_mode="constant"):
        super().__init__()
        self.padding = padding if isinstance(padding, int) else list(padding)
        sides(self.padding, "Pad")
        self.fill, self._fills, self.padding_mode = fill, fills(fill, "Pad"), padding_mode

    def transform(self, inpt, params):
        return self._call_kernel(F.pad, inpt, padding=self.padding, fill=fill_for(self._fills, inpt),
                                 padding_mode=self.padding_mode)


class RandomZoomOut(RandomlyApplied):
    """The picture on a larger canvas, at a drawn place (Liu et al. 2016)."""

    def __init__(self, fill=0, side_range=(1.0, 4.0), p=0.5):
        super().__init__(p)
        self.fill, self._fills = fill, fills(fill, "RandomZoomOut")
        self.side_range = side_range
        if not 1.0 <= side_range[0] <= side_range[1]:
            raise ValueError(f"RandomZoomOut: side_range must be (low, high) from 1 up, got {shown(side_range)}")

    def make_params(self, flat_inputs):
        height, width = query_size(flat_inputs)
        low, high = self.side_range
        factor = low + rand(1) * (high - low)
        wide, tall = int(width * factor), int(height * factor)
        part = rand(2)
        left, top = int((wide - width) * part[0]), int((tall - height) * part[1])
        return {"padding": [left, top, wide - left - width, tall - top - height]}

    def transform(self, inpt, params):
        return self._call_kernel(F.pad, inpt, **params, fill=fill_for(self._fills, inpt))


class RandomRotation(Transform):
    """Turned by a drawn angle."""

    def __init__(self, degrees, interpolation=InterpolationMode.NEAREST, expand=False, center=None, fill=0):
        super().__init__()
        self.degrees = _draws.angles(degrees, "degrees", "RandomRotation")
        self.interpolation, self.expand, self.fill = interpolation, expand, fill
        mode_of(interpolation, "RandomRotation")
        self._fills, self.center = fills(fill, "RandomRotation"), _places._center(center, "RandomRotation")

    def make_params(self, flat_inputs):
        return {"angle": _draws.uniform(*self.degrees)}

    def transform(self, inpt, params):
        return self._call_kernel(F.rotate, inpt, **params, interpolation=self.interpolation, expand=self.expand,
                                 center=self.center, fill=fill_for(self._fills, inpt))


class RandomAffine(Transform):
    """Turned, moved, scaled and sheared by drawn amounts; translate is a part of the picture's sides."""

    def __init__(self, degrees, translate=None, scale=None, shear=None, interpolation=InterpolationMode.NEAREST, fill=0,
                 center=None):
        super().__init__()
        self.degrees = _draws.angles(degrees, "degrees", "RandomAffine")
        self.translate, self.scale = _places.check_ranges(translate, scale, "RandomAffine")
        self.shear = None if shear is None else _draws.angles(shear, "shear", "RandomAffine", (2, 4))
        self.interpolation, self.fill, self._fills = interpolation, fill, fills(fill, "RandomAffine")
        mode_of(interpolation, "RandomAffine")
        self.center = _places._center(center, "RandomAffine")

    def make_params(self, flat_inputs):
        drawn = _draws.affine(self.degrees, self.translate, self.scale, self.shear, query_size(flat_inputs))
        return dict(zip(("angle", "translate", "scale", "shear"), drawn, strict=True))

    def transform(self, inpt, params):
        return self._call_kernel(F.affine, inpt, **params, interpolation=self.interpolation,
                                 fill=fill_for(self._fills, inpt), center=self.center)


class RandomCrop(Transform):
    """A window at a drawn place."""

    def __init__(self, size, padding=None, pad_if_needed=False, fill=0, padding_mode="constant"):
        super().__init__()
        self.size = pair(size, "RandomCrop")
        self.padding = None if padding is None else sides(padding, "RandomCrop")
        self.pad_if_needed, self.fill, self.padding_mode = pad_if_needed, fill, padding_mode
        self._fills = fills(fill, "RandomCrop")

    def make_params(self, flat_inputs):
        height, width = query_size(flat_inputs)
        padding = list(self.padding or [0, 0, 0, 0])
        height, width = height + padding[1] + padding[3], width + padding[0] + padding[2]
        if self.pad_if_needed:
            down, across = max(self.size[0] - height, 0), max(self.size[1] - width, 0)
            padding = [padding[0] + across, padding[1] + down, padding[2] + across, padding[3] + down]
            height, width = height + 2 * down, width + 2 * across
        if height < self.size[0] or width < self.size[1]:
            raise ValueError(f"RandomCrop: a window of {self.size} does not fit into a picture of {(height, width)}; "
                             "pad_if_needed=True pads it")
        top = _draws.whole(0, height - self.size[0] + 1) if height > self.size[0] else 0
        left = _draws.whole(0, width - self.size[1] + 1) if width > self.size[1] else 0
        return {"padding": padding if any(padding) else None, "window": (top, left, *self.size)}

    def transform(self, inpt, params):
        if params["padding"]:
            inpt = self._call_kernel(F.pad, inpt, padding=params["padding"], fill=fill_for(self._fills, inpt),
                                     padding_mode=self.padding_mode)
        return self._call_kernel(F.crop, inpt, *params["window"])


class RandomPerspective(RandomlyApplied):
    """Tilted by a drawn amount with probability p."""

    def __init__(self, distortion_scale=0.5, p=0.5, interpolation=InterpolationMode.BILINEAR, fill=0):
        super().__init__(p)
        if not 0 <= distortion_scale <= 1:
            raise ValueError(f"RandomPerspective: distortion_scale must be between 0 and 1, "
                             f"got {shown(distortion_scale)}")
        mode_of(interpolation, "RandomPerspective")
        self.distortion_scale, self.interpolation, self.fill = distortion_scale, interpolation, fill
        self._fills = fills(fill, "RandomPerspective")

    def make_params(self, flat_inputs):
        height, width = query_size(flat_inputs)
        start, end = _draws.perspective(width, height, self.distortion_scale)
        return {"coefficients": perspective_coefficients(start, end)}

    def transform(self, inpt, params):
        return self._call_kernel(F.perspective, inpt, startpoints=None, endpoints=None, **params,
                                 interpolation=self.interpolation, fill=fill_for(self._fills, inpt))


class ElasticTransform(Transform):
    """Bent by smooth noise: alpha says how far, sigma how smoothly."""

    def __init__(self, alpha=50.0, sigma=5.0, interpolation=InterpolationMode.BILINEAR, fill=0):
        super().__init__()
        self.alpha, self.sigma = _places.elastic_pair(alpha, "alpha"), _places.elastic_pair(sigma, "sigma")
        mode_of(interpolation, "ElasticTransform")
        self.interpolation, self.fill, self._fills = interpolation, fill, fills(fill, "ElasticTransform")

    def make_params(self, flat_inputs):
        size = list(query_size(flat_inputs))
        return {"displacement": _draws.displacement(self.alpha, self.sigma, size, F.gaussian_blur)}

    def transform(self, inpt, params):
        return self._call_kernel(F.elastic, inpt, **params, fill=fill_for(self._fills, inpt),
                                 interpolation=self.interpolation)


class RandomIoUCrop(Transform):
    """A window that overlaps a box by at least a drawn amount (Liu et al. 2016); boxes outside become empty."""

    def __init__(self, min_scale=0.3, max_scale=1.0, min_aspect_ratio=0.5, max_aspect_ratio=2.0, sampler_options=None,
                 trials=40):
        super().__init__()
        self.min_scale, self.max_scale = min_scale, max_scale
        self.min_aspect_ratio, self.max_aspect_ratio, self.trials = min_aspect_ratio, max_aspect_ratio, trials
        self.options = [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0] if sampler_options is None else sampler_options

    def check_inputs(self, flat_inputs):
        kinds = {type(value) for value in flat_inputs}
        if tv_tensors.BoundingBoxes not in kinds:
            raise TypeError("RandomIoUCrop: the sample needs BoundingBoxes, and a picture")

    def make_params(self, flat_inputs):
        size = query_size(flat_inputs)
        boxes = get_bounding_boxes(flat_inputs)
        boxes = converted(boxes.as_subclass(Tensor), boxes.format, tv_tensors.BoundingBoxFormat.XYXY)
        while True:
            least = self.options[_draws.whole(0, len(self.options))]
            if least >= 1.0:
                return {}
            for _ in range(self.trials):
                found = self._window(size, boxes, least)
                if found is not None:
                    return found

    def _window(self, size, boxes, least):
        part = self.min_scale + (self.max_scale - self.min_scale) * rand(2)
        width, height = int(size[1] * part[0]), int(size[0] * part[1])
        if not self.min_aspect_ratio <= width / height <= self.max_aspect_ratio:
            return None
        part = rand(2)
        left, top = int((size[1] - width) * part[0]), int((size[0] - height) * part[1])
        right, bottom = left + width, top + height
        if left == right or top == bottom:
            return None
        x, y = 0.5 * (boxes[..., 0] + boxes[..., 2]), 0.5 * (boxes[..., 1] + boxes[..., 3])
        inside = (left < x) & (x < right) & (top < y) & (y < bottom)
        if not inside.any() or _overlaps(boxes[inside], (left, top, right, bottom)).max() < least:
            return None
        return {"window": (top, left, height, width), "inside": inside}

    def transform(self, inpt, params):
        if not params:
            return inpt
        output = self._call_kernel(F.crop, inpt, *params["window"])
        if isinstance(output, tv_tensors.BoundingBoxes):
            output[~params["inside"]] = 0
        return output


def _overlaps(boxes, window):
    """Intersection over union of each box with the window."""
    wide = boxes[:, 2].clamp(max=window[2]) - boxes[:, 0].clamp(min=window[0])
    tall = boxes[:, 3].clamp(max=window[3]) - boxes[:, 1].clamp(min=window[1])
    common = wide.clamp(min=0) * tall.clamp(min=0)
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    return common / (areas + (window[2] - window[0]) * (window[3] - window[1]) - common)


class _Resizing(Transform):
    """Resized to what `make_params` draws."""

    def __init__(self, interpolation, antialias):
        super().__init__()
        mode_of(interpolation, type(self).__name__)
        self.interpolation, self.antialias = interpolation, antialias

    def transform(self, inpt, params):
        return self._call_kernel(F.resize, inpt, params["size"], interpolation=self.interpolation,
                                 antialias=self.antialias)


class ScaleJitter(_Resizing):
    """Resized to a drawn multiple of what fits into target_size."""

    def __init__(self, target_size, scale_range=(0.1, 2.0), interpolation=InterpolationMode.BILINEAR, antialias=True):
        super().__init__(interpolation, antialias)
        self.target_size, self.scale_range = target_size, scale_range

    def make_params(self, flat_inputs):
        height, width = query_size(flat_inputs)
        scale = self.scale_range[0] + rand(1) * (self.scale_range[1] - self.scale_range[0])
        ratio = min(self.target_size[1] / height, self.target_size[0] / width) * scale
        return {"size": (int(height * ratio), int(width * ratio))}


class RandomShortestSize(_Resizing):
    """Resized so that the shorter side is one of several sizes and the longer at most max_size."""

    def __init__(self, min_size, max_size=None, interpolation=InterpolationMode.BILINEAR, antialias=True):
        super().__init__(interpolation, antialias)
        self.min_size = [min_size] if isinstance(min_size, int) else list(min_size)
        self.max_size = max_size

    def make_params(self, flat_inputs):
        height, width = query_size(flat_inputs)
        ratio = self.min_size[_draws.whole(0, len(self.min_size))] / min(height, width)
        if self.max_size is not None:
            ratio = min(ratio, self.max_size / max(height, width))
        return {"size": (int(height * ratio), int(width * ratio))}


class RandomResize(_Resizing):
    """Resized so that the shorter side has a drawn size."""

    def __init__(self, min_size, max_size, interpolation=InterpolationMode.BILINEAR, antialias=True):
        super().__init__(interpolation, antialias)
        self.min_size, self.max_size = min_size, max_size

    def make_params(self, flat_inputs):
        return {"size": [_draws.whole(self.min_size, self.max_size)]}
