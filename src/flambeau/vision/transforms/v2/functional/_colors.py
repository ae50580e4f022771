"""Operations on the values of pixels; masks, boxes and points have none of these."""

from io import BytesIO as _bytes

from ..... import uint8
from ....._shown import shown
from ... import _color, _geometry
from ... import functional as F1
from ..._convert import pil_to_tensor, to_pil_image
from ..._kinds import pillow as _pillow
from ._dispatch import kernels, run


def adjust_brightness(inpt, brightness_factor):
    """0 is black, 1 the picture."""
    return run(adjust_brightness, inpt, brightness_factor=brightness_factor)


def adjust_brightness_image(image, brightness_factor):
    """A tensor, darker or brighter."""
    return _color.brightness(image, brightness_factor)


def adjust_contrast(inpt, contrast_factor):
    """0 is gray, 1 the picture."""
    return run(adjust_contrast, inpt, contrast_factor=contrast_factor)


def adjust_contrast_image(image, contrast_factor):
    """A tensor with less or more contrast."""
    return _color.contrast(image, contrast_factor)


def adjust_saturation(inpt, saturation_factor):
    """0 is without color, 1 the picture."""
    return run(adjust_saturation, inpt, saturation_factor=saturation_factor)


def adjust_saturation_image(image, saturation_factor):
    """A tensor with paler or stronger colors."""
    return _color.saturation(image, saturation_factor, v2=True)


def adjust_hue(inpt, hue_factor):
    """All hues turned by a part of the circle, between -0.5 and 0.5."""
    return run(adjust_hue, inpt, hue_factor=hue_factor)


def adjust_hue_image(image, hue_factor):
    """A tensor with other hues."""
    return _color.hue(image, hue_factor, v2=True)


def adjust_gamma(inpt, gamma, gain=1):
    """gain * picture ** gamma, of values between 0 and 1."""
    return run(adjust_gamma, inpt, gamma=gamma, gain=gain)


def adjust_gamma_image(image, gamma, gain=1.0):
    """A tensor, by a power law."""
    return _color.gamma(image, gamma, gain)


def adjust_sharpness(inpt, sharpness_factor):
    """0 is smoothed, 1 the picture, 2 sharper."""
    return run(adjust_sharpness, inpt, sharpness_factor=sharpness_factor)


def adjust_sharpness_image(image, sharpness_factor):
    """A tensor, smoother or sharper."""
    return _color.sharpness(image, sharpness_factor)


def rgb_to_grayscale(inpt, num_output_channels=1):
    """Without color, in one channel or three."""
    return run(rgb_to_grayscale, inpt, num_output_channels=num_output_channels)


def rgb_to_grayscale_image(image, num_output_channels=1):
    """A tensor without color."""
    return _color.grayscale(image, num_output_channels)


to_grayscale = rgb_to_grayscale


def grayscale_to_rgb(inpt):
    """Three equal channels of one; three stay."""
    return run(grayscale_to_rgb, inpt)


def grayscale_to_rgb_image(image):
    """A tensor of three channels."""
    return image if image.shape[-3] >= 3 else image.expand(*image.shape[:-3], 3, *image.shape[-2:]).clone()


def _rgb_pil(image):
    return image.convert(mode="RGB")


def invert(inpt):
    """The negative."""
    return run(invert, inpt)


def invert_image(image):
    """A tensor's negative."""
    return _color.invert(image)


def posterize(inpt, bits):
    """Only the first `bits` bits of each value."""
    return run(posterize, inpt, bits=bits)


def posterize_image(image, bits):
    """A tensor with few levels."""
    return _color.posterize(image, bits)


def solarize(inpt, threshold):
    """What is at or above the threshold is inverted."""
    return run(solarize, inpt, threshold=threshold)


def solarize_image(image, threshold):
    """A tensor with its bright parts inverted."""
    return _color.solarize(image, threshold)


def autocontrast(inpt):
    """Each channel stretched over the whole range."""
    return run(autocontrast, inpt)


def autocontrast_image(image):
    """A tensor, stretched."""
    return _color.autocontrast(image, v2=True)


def equalize(inpt):
    """Each channel's values spread evenly."""
    return run(equalize, inpt)


def equalize_image(image):
    """A tensor, spread evenly."""
    return _color.equalize(image)


def permute_channels(inpt, permutation):
    """Channels in another order."""
    return run(permute_channels, inpt, permutation=permutation)


def permute_channels_image(image, permutation):
    """A tensor with its channels in another order."""
    if len(permutation) != image.shape[-3]:
        raise ValueError(f"permute_channels: the picture has {image.shape[-3]} channels, the permutation names "
                         f"{len(permutation)}: {shown(permutation)}")
    return image[..., list(permutation), :, :]


def _permute_pil(image, permutation):
    return to_pil_image(permute_channels_image(pil_to_tensor(image), permutation))


def gaussian_blur(inpt, kernel_size, sigma=None):
    """Smoothed with a Gaussian of `sigma` pixels (x, y), cut off to `kernel_size` pixels."""
    return run(gaussian_blur, inpt, kernel_size=kernel_size, sigma=sigma)


def gaussian_blur_image(image, kernel_size, sigma=None):
    """A tensor, smoothed."""
    return _color.gaussian_blur(image, kernel_size, sigma, v2=True)


def _blur_pil(image, kernel_size, sigma=None):
    return to_pil_image(gaussian_blur_image(pil_to_tensor(image), kernel_size, sigma), mode=image.mode)


def gaussian_noise(inpt, mean=0.0, sigma=0.1, clip=True):
    """Noise added to each value."""
    return run(gaussian_noise, inpt, mean=mean, sigma=sigma, clip=clip)


def gaussian_noise_image(image, mean=0.0, sigma=0.1, clip=True):
    """A tensor with noise."""
    return _color.gaussian_noise(image, mean, sigma, clip)


def normalize(inpt, mean, std, inplace=False):
    """(picture - mean) / std, per channel."""
    return run(normalize, inpt, mean=mean, std=std, inplace=inplace)


def normalize_image(image, mean, std, inplace=False):
    """A tensor, normalized."""
    return _color.normalize(image, mean, std, inplace)


def erase(inpt, i, j, h, w, v, inplace=False):
    """The window of height h and width w at row i, column j filled with v."""
    return run(erase, inpt, i=i, j=j, h=h, w=w, v=v, inplace=inplace)


def erase_image(image, i, j, h, w, v, inplace=False):
    """A tensor with a window filled."""
    return _geometry.erase(image, i, j, h, w, v, inplace)


def _erase_pil(image, i, j, h, w, v, inplace=False):
    if inplace:
        raise ValueError("erase: a Pillow image is not changed in place; inplace=False gives a new one")
    return to_pil_image(erase_image(pil_to_tensor(image), i, j, h, w, v), mode=image.mode)


def jpeg(image, quality):
    """Written as JPEG with this quality (1 to 100), and read again."""
    return run(jpeg, image, quality=quality)


def jpeg_image(image, quality):
    """A tensor of uint8, with the losses of JPEG."""
    if image.dtype != uint8:
        raise RuntimeError(f"jpeg: a picture of uint8 is needed, got {image.dtype}")
    if image.shape[-3] not in (1, 3):
        raise RuntimeError(f"jpeg: a picture has 1 or 3 channels, got {image.shape[-3]}")
    planes = [pil_to_tensor(_jpeg_pil(to_pil_image(one), quality)) for one in image.reshape(-1, *image.shape[-3:])]
    return _stacked(planes, image)


def _stacked(planes, image):
    found = image.new_empty((len(planes), *image.shape[-3:]))
    for k, plane in enumerate(planes):
        found[k] = plane
    return found.view(image.shape)


def _jpeg_pil(image, quality):
    with _bytes() as file:
        image.save(file, format="JPEG", quality=quality)
        found = _pillow("jpeg").open(file)
        found.load()
    return found


for _name in ("adjust_brightness", "adjust_contrast", "adjust_saturation", "adjust_hue", "adjust_gamma",
              "adjust_sharpness", "invert", "posterize", "solarize", "autocontrast", "equalize",
              "rgb_to_grayscale"):
    kernels(globals()[_name], globals()[f"{_name}_image"], getattr(F1, _name))
kernels(gaussian_blur, gaussian_blur_image, _blur_pil)
kernels(grayscale_to_rgb, grayscale_to_rgb_image, _rgb_pil)
kernels(permute_channels, permute_channels_image, _permute_pil)
kernels(gaussian_noise, gaussian_noise_image)
kernels(normalize, normalize_image)
kernels(erase, erase_image, _erase_pil)
kernels(jpeg, jpeg_image, _jpeg_pil)

# a film is pictures one after the other: each of these works on [..., channels, height, width]
adjust_brightness_video, adjust_contrast_video = adjust_brightness_image, adjust_contrast_image
adjust_saturation_video, adjust_hue_video = adjust_saturation_image, adjust_hue_image
adjust_gamma_video, adjust_sharpness_video = adjust_gamma_image, adjust_sharpness_image
invert_video, posterize_video, solarize_video = invert_image, posterize_image, solarize_image
autocontrast_video, equalize_video = autocontrast_image, equalize_image
permute_channels_video, gaussian_blur_video = permute_channels_image, gaussian_blur_image
gaussian_noise_video, normalize_video = gaussian_noise_image, normalize_image
erase_video, jpeg_video = erase_image, jpeg_image
