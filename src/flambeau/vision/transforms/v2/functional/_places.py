"""Operations on where pixels are, for pictures, films, masks, boxes and points."""

from ... import _geometry, _pil, _warp
from ... import functional as F1
from ..._kinds import InterpolationMode, is_pil, mode_of, size_of
from . import _boxes, _points
from ._dispatch import kernels, run

_NEAREST, _BILINEAR = InterpolationMode.NEAREST, InterpolationMode.BILINEAR


def _flat(mask, change):
    """A mask [height, width] goes through as one channel."""
    return change(mask.unsqueeze(0)).squeeze(0) if mask.dim() == 2 else change(mask)


def resize(inpt, size, interpolation=_BILINEAR, max_size=None, antialias=True):
    """Resized to (height, width), or so that the shorter side is `size`, or the longer `max_size` (size None)."""
    return run(resize, inpt, size=size, interpolation=interpolation, max_size=max_size, antialias=antialias)


def resize_image(image, size, interpolation=_BILINEAR, max_size=None, antialias=True):
    """A tensor, resized; uint8 is resized in whole numbers."""
    height, width = _geometry.resized(image.shape[-2:], size, max_size)
    mode = mode_of(interpolation, "resize")
    return _geometry.resize(image, height, width, mode, antialias, native_bytes=True)


def resize_mask(mask, size, interpolation=_NEAREST, max_size=None):
    """A mask, resized: nearest, so that no new value appears."""
    return _flat(mask, lambda m: resize_image(m, size, interpolation, max_size, False))


def _resize_mask(mask, size, max_size=None):
    return resize_mask(mask, size, max_size=max_size)


def _resize_pil(image, size, interpolation=_BILINEAR, max_size=None):
    height, width = _geometry.resized(size_of(image), size, max_size)
    return F1.resize(image, [height, width], interpolation)


resize_video = resize_image


def horizontal_flip(inpt):
    """Left and right exchanged."""
    return run(horizontal_flip, inpt)


def horizontal_flip_image(image):
    """A tensor, mirrored."""
    return image.flip(-1)


def vertical_flip(inpt):
    """Top and bottom exchanged."""
    return run(vertical_flip, inpt)


def vertical_flip_image(image):
    """A tensor, upside down."""
    return image.flip(-2)


horizontal_flip_mask = horizontal_flip_video = horizontal_flip_image
vertical_flip_mask = vertical_flip_video = vertical_flip_image
hflip, vflip = horizontal_flip, vertical_flip


def pad(inpt, padding, fill=None, padding_mode="constant"):
    """Padded by one number, [left and right, top and bottom] or [left, top, right, bottom]."""
    return run(pad, inpt, padding=padding, fill=fill, padding_mode=padding_mode)


def pad_image(image, padding, fill=None, padding_mode="constant"):
    """A tensor, padded."""
    return _geometry.pad(image, *_geometry.sides(padding), fill, padding_mode)


def pad_mask(mask, padding, fill=None, padding_mode="constant"):
    """A mask, padded with one value."""
    if isinstance(fill, (tuple, list)):
        raise ValueError("pad: a mask is padded with one value, not one per channel")
    return _flat(mask, lambda m: pad_image(m, padding, fill, padding_mode))


def _pad_pil(image, padding, fill=None, padding_mode="constant"):
    return F1.pad(image, padding, 0 if fill is None else fill, padding_mode)


pad_video = pad_image


def crop(inpt, top, left, height, width):
    """A window; what lies outside of the picture is black."""
    return run(crop, inpt, top=top, left=left, height=height, width=width)


def crop_image(image, top, left, height, width):
    """A window of a tensor."""
    return _geometry.crop(image, top, left, height, width)


def crop_mask(mask, top, left, height, width):
    """A window of a mask."""
    return _flat(mask, lambda m: _geometry.crop(m, top, left, height, width))


crop_video = crop_image


def center_crop(inpt, output_size):
    """The middle; a smaller picture is padded with black."""
    return run(center_crop, inpt, output_size=output_size)


def center_crop_image(image, output_size):
    """The middle of a tensor."""
    return F1.center_crop(image, output_size)


def center_crop_mask(mask, output_size):
    """The middle of a mask."""
    return _flat(mask, lambda m: F1.center_crop(m, output_size))


center_crop_video = center_crop_image


def resized_crop(inpt, top, left, height, width, size, interpolation=_BILINEAR, antialias=True):
    """A window, resized."""
    return run(resized_crop, inpt, top=top, left=left, height=height, width=width, size=size,
               interpolation=interpolation, antialias=antialias)


def resized_crop_image(image, top, left, height, width, size, interpolation=_BILINEAR, antialias=True):
    """A window of a tensor, resized."""
    return resize_image(crop_image(image, top, left, height, width), size, interpolation, antialias=antialias)


def resized_crop_mask(mask, top, left, height, width, size):
    """A window of a mask, resized."""
    return resize_mask(crop_mask(mask, top, left, height, width), size)


def _resized_crop_pil(image, top, left, height, width, size, interpolation=_BILINEAR):
    return _resize_pil(F1.crop(image, top, left, height, width), size, interpolation)


resized_crop_video = resized_crop_image


def five_crop(inpt, size):
    """The four corners and the center."""
    return run(five_crop, inpt, size=size)


def five_crop_image(image, size):
    """The four corners and the center of a tensor."""
    return F1.five_crop(image, size)


def ten_crop(inpt, size, vertical_flip=False):
    """`five_crop` of the picture and of its mirror image."""
    return run(ten_crop, inpt, size=size, vertical_flip=vertical_flip)


def ten_crop_image(image, size, vertical_flip=False):
    """`five_crop` of a tensor and of its mirror image."""
    return F1.ten_crop(image, size, vertical_flip)


five_crop_video, ten_crop_video = five_crop_image, ten_crop_image


def affine(inpt, angle, translate, scale, shear, interpolation=_NEAREST, fill=None, center=None):
    """Turned by `angle`, sheared (degrees), scaled and moved around `center` (x, y)."""
    return run(affine, inpt, angle=angle, translate=translate, scale=scale, shear=shear, interpolation=interpolation,
               fill=fill, center=center)


def affine_image(image, angle, translate, scale, shear, interpolation=_NEAREST, fill=None, center=None):
    """A tensor, moved."""
    return F1.affine(image, angle, list(translate), scale, shear, interpolation, fill, center)


def affine_mask(mask, angle, translate, scale, shear, fill=None, center=None):
    """A mask, moved."""
    return _flat(mask, lambda m: affine_image(m, angle, translate, scale, shear, _NEAREST, fill, center))


affine_video = affine_image


def rotate(inpt, angle, interpolation=_NEAREST, expand=False, center=None, fill=None):
    """Turned counter-clockwise by `angle` degrees around `center` (x, y); `expand` makes room for all of it."""
    return run(rotate, inpt, angle=angle, interpolation=interpolation, expand=expand, center=center, fill=fill)


def rotate_image(image, angle, interpolation=_NEAREST, expand=False, center=None, fill=None):
    """A tensor, turned; right angles that keep all pixels move them exactly."""
    angle = angle % 360
    if center is None and angle % 90 == 0 and not is_pil(image):
        square = image.shape[-1] == image.shape[-2]
        if angle in (0, 180) or expand or square:
            return image.rot90(int(angle // 90), (-2, -1)) if angle else image.clone()
    return F1.rotate(image, angle, interpolation, expand, center, fill)


def rotate_mask(mask, angle, expand=False, center=None, fill=None):
    """A mask, turned."""
    return _flat(mask, lambda m: rotate_image(m, angle, _NEAREST, expand, center, fill))


rotate_video = rotate_image


def _rotate_pil(image, angle, interpolation=_NEAREST, expand=False, center=None, fill=None):
    return F1.rotate(image, angle, interpolation, expand, center, fill)


def perspective(inpt, startpoints, endpoints, interpolation=_BILINEAR, fill=None, coefficients=None):
    """Tilted so that four points (x, y) come to lie on four others, or by 8 coefficients."""
    return run(perspective, inpt, startpoints=startpoints, endpoints=endpoints, interpolation=interpolation, fill=fill,
               coefficients=coefficients)


def perspective_image(image, startpoints, endpoints, interpolation=_BILINEAR, fill=None, coefficients=None):
    """A tensor, tilted."""
    found = _points.coefficients_of(startpoints, endpoints, coefficients)
    mode = F1.moving_mode(interpolation, "perspective")
    if is_pil(image):
        return _pil.perspective(image, found, mode, fill)
    return _warp.sample(image, _warp.perspective_grid(found, size_of(image)), mode, fill)


def perspective_mask(mask, startpoints, endpoints, fill=None, coefficients=None):
    """A mask, tilted."""
    return _flat(mask, lambda m: perspective_image(m, startpoints, endpoints, _NEAREST, fill, coefficients))


perspective_video = perspective_image


def elastic(inpt, displacement, interpolation=_BILINEAR, fill=None):
    """Bent: each pixel comes from its place plus displacement [1, height, width, 2] (1 is half a picture)."""
    return run(elastic, inpt, displacement=displacement, interpolation=interpolation, fill=fill)


def elastic_image(image, displacement, interpolation=_BILINEAR, fill=None):
    """A tensor, bent."""
    return F1.elastic_transform(image, displacement, interpolation, fill)


def elastic_mask(mask, displacement, fill=None):
    """A mask, bent."""
    return _flat(mask, lambda m: elastic_image(m, displacement, _NEAREST, fill))


elastic_video, elastic_transform = elastic_image, elastic

kernels(resize, resize_image, _resize_pil, _resize_mask, _boxes.resize_bounding_boxes, _points.resize_keypoints)
kernels(horizontal_flip, horizontal_flip_image, F1.hflip, horizontal_flip_mask, _boxes.horizontal_flip_bounding_boxes,
        _points.horizontal_flip_keypoints)
kernels(vertical_flip, vertical_flip_image, F1.vflip, vertical_flip_mask, _boxes.vertical_flip_bounding_boxes,
        _points.vertical_flip_keypoints)
kernels(pad, pad_image, _pad_pil, pad_mask, _boxes.pad_bounding_boxes, _points.pad_keypoints)
kernels(crop, crop_image, F1.crop, crop_mask, _boxes.crop_bounding_boxes, _points.crop_keypoints)
kernels(center_crop, center_crop_image, F1.center_crop, center_crop_mask, _boxes.center_crop_bounding_boxes,
        _points.center_crop_keypoints)
kernels(resized_crop, resized_crop_image, _resized_crop_pil, resized_crop_mask, _boxes.resized_crop_bounding_boxes,
        _points.resized_crop_keypoints)
kernels(five_crop, five_crop_image, F1.five_crop)
kernels(ten_crop, ten_crop_image, F1.ten_crop)
kernels(affine, affine_image, F1.affine, affine_mask, _boxes.affine_bounding_boxes, _points.affine_keypoints)
kernels(rotate, rotate_image, _rotate_pil, rotate_mask, _boxes.rotate_bounding_boxes, _points.rotate_keypoints)
kernels(perspective, perspective_image, perspective_image, perspective_mask, _boxes.perspective_bounding_boxes,
        _points.perspective_keypoints)
kernels(elastic, elastic_image, elastic_image, elastic_mask, _boxes.elastic_bounding_boxes, _points.elastic_keypoints)
