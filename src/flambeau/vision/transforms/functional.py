"""The operations of torchvision.transforms.functional, on Pillow images and on tensors [..., height, width]."""

from numbers import Number

from ... import Tensor, float32, uint8
from ..._shown import shown
from . import _color, _geometry, _pil, _warp
from ._convert import pil_to_tensor as pil_to_tensor
from ._convert import to_pil_image as to_pil_image
from ._convert import to_tensor as to_tensor
from ._kinds import PILLOW as pil_modes_mapping  # noqa: F401 (its public name)
from ._kinds import InterpolationMode as InterpolationMode
from ._kinds import channels_of, check_picture, check_tensor, is_pil, mode_of, pair, size_of


def get_dimensions(img):
    """[channels, height, width]."""
    check_picture(img, "get_dimensions")
    return [channels_of(img), *size_of(img)]


def get_image_size(img):
    """[width, height]."""
    check_picture(img, "get_image_size")
    return [*size_of(img)][::-1]


def get_image_num_channels(img):
    """The number of channels."""
    check_picture(img, "get_image_num_channels")
    return channels_of(img)


def convert_image_dtype(image, dtype=float32):
    """The same picture in another dtype, white staying white."""
    if not isinstance(image, Tensor):
        raise TypeError(f"convert_image_dtype: a tensor is needed, got {type(image).__name__}")
    return _geometry.to_dtype(image, dtype)


def normalize(tensor, mean, std, inplace=False):
    """(tensor - mean) / std, per channel."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"normalize: a tensor is needed, got {type(tensor).__name__}; to_tensor makes one")
    numbers = [1 if isinstance(v, Number) else len(v) for v in (mean, std)]
    if tensor.dim() > 2 and any(n not in (1, tensor.shape[-3]) for n in numbers):
        raise RuntimeError(f"normalize: a picture of {tensor.shape[-3]} channels needs one mean and std, or as many, "
                           f"got {numbers[0]} and {numbers[1]}")
    return _color.normalize(tensor, mean, std, inplace)


def resize(img, size, interpolation=InterpolationMode.BILINEAR, max_size=None, antialias=True):
    """Resized to (height, width), or so that the shorter side is `size` and the longer at most `max_size`."""
    check_picture(img, "resize")
    mode = mode_of(interpolation, "resize")
    size = list(size) if isinstance(size, (tuple, list)) else [int(size)]
    height, width = _geometry.resized(size_of(img), size, max_size)
    if is_pil(img):
        return img if (height, width) == size_of(img) else _pil.resize(img, height, width, mode)
    check_tensor(img, "resize")
    return _geometry.resize(img, height, width, mode, antialias, native_bytes=False)


def pad(img, padding, fill=0, padding_mode="constant"):
    """Padded by one number, [left and right, top and bottom] or [left, top, right, bottom]."""
    check_picture(img, "pad")
    where = _geometry.sides(padding)
    if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
        raise ValueError(f"pad: padding_mode must be 'constant', 'edge', 'reflect' or 'symmetric', "
                         f"got {shown(padding_mode)}")
    return (_pil if is_pil(img) else _geometry).pad(img, *where, fill, padding_mode)


def crop(img, top, left, height, width):
    """A window of the picture; what lies outside is black."""
    check_picture(img, "crop")
    return (_pil if is_pil(img) else _geometry).crop(img, top, left, height, width)


def center_crop(img, output_size):
    """The middle of the picture; a smaller picture is padded with black."""
    check_picture(img, "center_crop")
    size = pair(output_size, "center_crop")
    padding, top, left = _geometry.center(size_of(img), size)
    if padding:
        img = pad(img, padding)
        if size == size_of(img):
            return img
    return crop(img, top, left, *size)


def resized_crop(img, top, left, height, width, size, interpolation=InterpolationMode.BILINEAR, antialias=True):
    """A window of the picture, resized."""
    return resize(crop(img, top, left, height, width), size, interpolation, antialias=antialias)


def hflip(img):
    """Left and right exchanged."""
    check_picture(img, "hflip")
    return _pil.hflip(img) if is_pil(img) else img.flip(-1)


def vflip(img):
    """Top and bottom exchanged."""
    check_picture(img, "vflip")
    return _pil.vflip(img) if is_pil(img) else img.flip(-2)


def five_crop(img, size):
    """The four corners (top left, top right, bottom left, bottom right) and the center."""
    check_picture(img, "five_crop")
    (height, width), places = _geometry.windows(size_of(img), size, "five_crop")
    return tuple(crop(img, top, left, height, width) for top, left in places)


def ten_crop(img, size, vertical_flip=False):
    """`five_crop` of the picture and of its mirror image."""
    return five_crop(img, size) + five_crop(vflip(img) if vertical_flip else hflip(img), size)


def moving_mode(interpolation, where):
    """The mode, of which tensors know two and Pillow three here."""
    mode = mode_of(interpolation, where)
    if mode not in (InterpolationMode.NEAREST, InterpolationMode.BILINEAR, InterpolationMode.BICUBIC):
        raise ValueError(f"{where}: interpolation must be nearest, bilinear, or bicubic (Pillow only), got {mode}")
    return mode


def affine(img, angle, translate, scale, shear, interpolation=InterpolationMode.NEAREST, fill=None, center=None):
    """Turned by `angle`, sheared (degrees), scaled and moved; `center` is (x, y), the middle unless given."""
    check_picture(img, "affine")
    mode = moving_mode(interpolation, "affine")
    shear = check_affine(angle, translate, scale, shear)
    size = size_of(img)
    if is_pil(img):
        center = [size[1] * 0.5, size[0] * 0.5] if center is None else center
        return _pil.affine(img, _warp.inverse_matrix(center, angle, translate, scale, shear), mode, fill)
    middle = _warp.from_middle(center, size)
    matrix = _warp.inverse_matrix(middle, angle, [1.0 * t for t in translate], scale, shear)
    return _warp.sample(img, _warp.affine_grid(matrix, size), mode, fill)


def check_affine(angle, translate, scale, shear):
    """Two angles of shear, after the other numbers were checked."""
    if not isinstance(angle, Number):
        raise TypeError(f"affine: angle must be a number, got {shown(angle)}")
    if not isinstance(translate, (list, tuple)):
        raise TypeError(f"affine: translate must be (x, y), got {shown(translate)}")
    if len(translate) != 2:
        raise ValueError(f"affine: translate must be (x, y), got {shown(translate)}")
    if scale <= 0:
        raise ValueError(f"affine: scale must be positive, got {shown(scale)}")
    if not isinstance(shear, (Number, list, tuple)):
        raise TypeError(f"affine: shear must be a number or (x, y), got {shown(shear)}")
    shear = [shear, 0.0] if isinstance(shear, Number) else list(shear) * (3 - len(shear))
    if len(shear) != 2:
        raise ValueError(f"affine: shear must be a number or (x, y), got {shown(shear)}")
    return shear


def rotate(img, angle, interpolation=InterpolationMode.NEAREST, expand=False, center=None, fill=None):
    """Turned counter-clockwise by `angle` degrees around `center` (x, y); `expand` makes room for all of it."""
    check_picture(img, "rotate")
    mode = moving_mode(interpolation, "rotate")
    if not isinstance(angle, Number):
        raise TypeError(f"rotate: angle must be a number, got {shown(angle)}")
    if center is not None and not isinstance(center, (list, tuple)):
        raise TypeError(f"rotate: center must be (x, y), got {shown(center)}")
    if is_pil(img):
        return _pil.rotate(img, angle, mode, expand, center, fill)
    return rotated(img, angle, mode, expand, center, fill)


def rotated(img, angle, mode, expand, center, fill):
    """A tensor, turned."""
    size = size_of(img)
    matrix = _warp.inverse_matrix(_warp.from_middle(center, size), -angle, [0.0, 0.0], 1.0, [0.0, 0.0])
    out = _warp.expanded_size(matrix, size) if expand else size
    return _warp.sample(img, _warp.affine_grid(matrix, size, out), mode, fill)


def perspective(img, startpoints, endpoints, interpolation=InterpolationMode.BILINEAR, fill=None):
    """Tilted so that four points (x, y) come to lie on four others: top left, top right, bottom right, bottom left."""
    check_picture(img, "perspective")
    mode = moving_mode(interpolation, "perspective")
    coefficients = _warp.perspective_coefficients(startpoints, endpoints)
    if is_pil(img):
        return _pil.perspective(img, coefficients, mode, fill)
    return _warp.sample(img, _warp.perspective_grid(coefficients, size_of(img)), mode, fill)


def elastic_transform(img, displacement, interpolation=InterpolationMode.BILINEAR, fill=None):
    """Bent: each pixel comes from its place plus displacement [1, height, width, 2] (1 is half a picture)."""
    check_picture(img, "elastic_transform")
    mode = moving_mode(interpolation, "elastic_transform")
    if not isinstance(displacement, Tensor):
        raise TypeError(f"elastic_transform: displacement must be a tensor, got {type(displacement).__name__}")
    if tuple(displacement.shape) != (1, *size_of(img), 2):
        raise ValueError(f"elastic_transform: displacement must have the shape {[1, *size_of(img), 2]}, "
                         f"got {list(displacement.shape)}")
    return _as_tensor(img, lambda values: _warp.sample(
        values, _warp.identity_grid(size_of(values)).to(displacement) + displacement, mode, fill))


def _as_tensor(img, change):
    """What is done to tensors only: a Pillow image is made one and made an image again."""
    if not is_pil(img):
        return change(img)
    return to_pil_image(change(pil_to_tensor(img)), mode=img.mode)


def gaussian_blur(img, kernel_size, sigma=None):
    """Smoothed with a Gaussian of `sigma` pixels (x, y), cut off to `kernel_size` pixels."""
    check_picture(img, "gaussian_blur")
    kernel_size, sigma = _color.blur_settings(kernel_size, sigma)
    return _as_tensor(img, lambda values: _color.gaussian_blur(values, kernel_size, sigma))


def adjust_brightness(img, brightness_factor):
    """0 is black, 1 the picture."""
    check_picture(img, "adjust_brightness")
    return (_pil if is_pil(img) else _color).brightness(img, brightness_factor)


def adjust_contrast(img, contrast_factor):
    """0 is gray, 1 the picture."""
    check_picture(img, "adjust_contrast")
    return (_pil if is_pil(img) else _color).contrast(img, contrast_factor)


def adjust_saturation(img, saturation_factor):
    """0 is without color, 1 the picture."""
    check_picture(img, "adjust_saturation")
    return (_pil if is_pil(img) else _color).saturation(img, saturation_factor)


def adjust_hue(img, hue_factor):
    """All hues turned by a part of the circle, between -0.5 and 0.5."""
    check_picture(img, "adjust_hue")
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"adjust_hue: hue_factor must be between -0.5 and 0.5, got {shown(hue_factor)}")
    return (_pil if is_pil(img) else _color).hue(img, hue_factor)


def adjust_gamma(img, gamma, gain=1):
    """gain * img ** gamma, of values between 0 and 1."""
    check_picture(img, "adjust_gamma")
    if gamma < 0:
        raise ValueError(f"adjust_gamma: gamma must not be negative, got {shown(gamma)}")
    return (_pil if is_pil(img) else _color).gamma(img, gamma, gain)


def adjust_sharpness(img, sharpness_factor):
    """0 is smoothed, 1 the picture, 2 sharper."""
    check_picture(img, "adjust_sharpness")
    if is_pil(img):
        return _pil.sharpness(img, sharpness_factor)
    return _color.sharpness(img, sharpness_factor, from_image=False)


def rgb_to_grayscale(img, num_output_channels=1):
    """Without color, in one channel or three."""
    check_picture(img, "rgb_to_grayscale")
    return (_pil if is_pil(img) else _color).grayscale(img, num_output_channels)


def to_grayscale(img, num_output_channels=1):
    """A Pillow image without color."""
    if not is_pil(img):
        raise TypeError(f"to_grayscale: a Pillow image is needed, got {type(img).__name__}; rgb_to_grayscale takes "
                        "tensors")
    return _pil.grayscale(img, num_output_channels)


def erase(img, i, j, h, w, v, inplace=False):
    """The window of height h and width w at row i, column j filled with v."""
    if not isinstance(img, Tensor):
        raise TypeError(f"erase: a tensor is needed, got {type(img).__name__}")
    return _geometry.erase(img, i, j, h, w, v, inplace)


def invert(img):
    """The negative."""
    check_picture(img, "invert")
    return (_pil if is_pil(img) else _color).invert(img)


def posterize(img, bits):
    """Only the first `bits` bits of each value."""
    check_picture(img, "posterize")
    if not 0 <= bits <= 8:
        raise ValueError(f"posterize: bits must be between 0 and 8, got {shown(bits)}")
    if is_pil(img):
        return _pil.posterize(img, bits)
    _bytes("posterize", img)
    return _color.posterize(img, bits)


def _bytes(where, img):
    if img.dtype != uint8:
        raise TypeError(f"{where}: a tensor must be of uint8, got {img.dtype}")


def solarize(img, threshold):
    """What is at or above the threshold is inverted."""
    check_picture(img, "solarize")
    return (_pil if is_pil(img) else _color).solarize(img, threshold)


def autocontrast(img):
    """Each channel stretched over the whole range."""
    check_picture(img, "autocontrast")
    return (_pil if is_pil(img) else _color).autocontrast(img)


def equalize(img):
    """Each channel's values spread evenly; tensors must be of uint8."""
    check_picture(img, "equalize")
    if is_pil(img):
        return _pil.equalize(img)
    _bytes("equalize", img)
    return _color.equalize(img)

