"""Transforms (v1) of the values of pixels: colors, blur, erasing."""

from ... import empty, tensor
from ..._shown import shown
from ...nn import Module
from . import _color, _draws
from . import functional as F
from ._kinds import channels_of


class ColorJitter(Module):
    """Brightness, contrast, saturation and hue changed by drawn amounts, in a drawn order."""

    def __init__(self, brightness=0, contrast=0, saturation=0, hue=0):
        super().__init__()
        self.brightness = _draws.symmetric(brightness, "brightness", "ColorJitter")
        self.contrast = _draws.symmetric(contrast, "contrast", "ColorJitter")
        self.saturation = _draws.symmetric(saturation, "saturation", "ColorJitter")
        self.hue = _draws.symmetric(hue, "hue", "ColorJitter", around=0, bounds=(-0.5, 0.5), clip=False)

    @staticmethod
    def get_params(brightness, contrast, saturation, hue):
        """(order, four amounts); None where nothing is asked for."""
        return _draws.jitter(brightness, contrast, saturation, hue)

    def forward(self, img):
        order, *amounts = self.get_params(self.brightness, self.contrast, self.saturation, self.hue)
        changes = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue)
        for k in order.tolist():
            if amounts[k] is not None:
                img = changes[k](img, amounts[k])
        return img

    def __repr__(self):
        return (f"{type(self).__name__}(brightness={self.brightness}, contrast={self.contrast}, "
                f"saturation={self.saturation}, hue={self.hue})")


class Grayscale(Module):
    """Without color, in one channel or three."""

    def __init__(self, num_output_channels=1):
        super().__init__()
        self.num_output_channels = num_output_channels

    def forward(self, img):
        return F.rgb_to_grayscale(img, self.num_output_channels)

    def __repr__(self):
        return f"{type(self).__name__}(num_output_channels={self.num_output_channels})"


class RandomGrayscale(Module):
    """Without color with probability p; the number of channels stays."""

    def __init__(self, p=0.1):
        super().__init__()
        self.p = p

    def forward(self, img):
        channels = channels_of(img)
        return F.rgb_to_grayscale(img, channels) if _draws.chance(self.p) else img

    def __repr__(self):
        return f"{type(self).__name__}(p={self.p})"


class _Sometimes(Module):
    """A function applied with probability p."""

    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def forward(self, img):
        return self._change(img) if _draws.chance(self.p) else img

    def __repr__(self):
        return f"{type(self).__name__}(p={self.p})"


class RandomInvert(_Sometimes):
    """The negative."""

    def _change(self, img):
        return F.invert(img)


class RandomAutocontrast(_Sometimes):
    """Each channel stretched over the whole range."""

    def _change(self, img):
        return F.autocontrast(img)


class RandomEqualize(_Sometimes):
    """Each channel's values spread evenly."""

    def _change(self, img):
        return F.equalize(img)


class RandomPosterize(_Sometimes):
    """Only the first `bits` bits of each value."""

    def __init__(self, bits, p=0.5):
        super().__init__(p)
        self.bits = bits

    def _change(self, img):
        return F.posterize(img, self.bits)

    def __repr__(self):
        return f"{type(self).__name__}(bits={self.bits},p={self.p})"


class RandomSolarize(_Sometimes):
    """What is at or above the threshold is inverted."""

    def __init__(self, threshold, p=0.5):
        super().__init__(p)
        self.threshold = threshold

    def _change(self, img):
        return F.solarize(img, self.threshold)

    def __repr__(self):
        return f"{type(self).__name__}(threshold={self.threshold},p={self.p})"


class RandomAdjustSharpness(_Sometimes):
    """Smoothed or sharpened by a given factor."""

    def __init__(self, sharpness_factor, p=0.5):
        super().__init__(p)
        self.sharpness_factor = sharpness_factor

    def _change(self, img):
        return F.adjust_sharpness(img, self.sharpness_factor)

    def __repr__(self):
        return f"{type(self).__name__}(sharpness_factor={self.sharpness_factor},p={self.p})"


class GaussianBlur(Module):
    """Smoothed with a Gaussian whose sigma is drawn from a range."""

    def __init__(self, kernel_size, sigma=(0.1, 2.0)):
        super().__init__()
        kernel, _ = _color.blur_settings(kernel_size, None, "GaussianBlur")
        self.kernel_size = tuple(kernel)
        self.sigma = sigma_range(sigma)

    @staticmethod
    def get_params(sigma_min, sigma_max):
        """A sigma between the two."""
        return _draws.uniform(sigma_min, sigma_max)

    def forward(self, img):
        sigma = self.get_params(*self.sigma)
        return F.gaussian_blur(img, self.kernel_size, [sigma, sigma])

    def __repr__(self):
        return f"{type(self).__name__}(kernel_size={self.kernel_size}, sigma={self.sigma})"


def sigma_range(sigma):
    """(low, high) of positive numbers."""
    low, high = (sigma, sigma) if isinstance(sigma, (int, float)) else tuple(sigma)
    if not 0 < low <= high:
        raise ValueError(f"GaussianBlur: sigma must be positive, as one number or (low, high), got {shown(sigma)}")
    return (low, high)


class RandomErasing(Module):
    """A window of a tensor filled with a value, or with noise (`value="random"`), with probability p."""

    def __init__(self, p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0, inplace=False):
        super().__init__()
        check_erasing(p, scale, ratio, value)
        self.p, self.scale, self.ratio, self.value, self.inplace = p, scale, ratio, value, inplace

    @staticmethod
    def get_params(img, scale, ratio, value=None):
        """(top, left, height, width, what it is filled with)."""
        return erasing(img, scale, ratio, value)

    def forward(self, img):
        if not _draws.chance(self.p):
            return img
        value = erasing_value(self.value)
        if value is not None and len(value) not in (1, img.shape[-3]):
            raise ValueError(f"RandomErasing: value must have 1 number or one per channel ({img.shape[-3]}), "
                             f"got {shown(self.value)}")
        top, left, height, width, fill = self.get_params(img, self.scale, self.ratio, value)
        return F.erase(img, top, left, height, width, fill, self.inplace)

    def __repr__(self):
        return (f"{type(self).__name__}(p={self.p}, scale={self.scale}, ratio={self.ratio}, value={self.value}, "
                f"inplace={self.inplace})")


def erasing(img, scale, ratio, value):
    """(top, left, height, width, what it is filled with); the picture itself if no window fits."""
    size = img.shape[-2:]
    window = _draws.erasing(size, scale, ratio)
    if window is None:
        return 0, 0, *size, img
    fill = erasing_fill(img.shape[-3], window, value)
    return *_draws.place(size, window), *window, fill


def erasing_fill(channels, window, value):
    """Noise for None, else one number for all channels or one for each."""
    return empty(channels, *window).normal_() if value is None else tensor(value)[:, None, None]


def check_erasing(p, scale, ratio, value):
    """TypeError or ValueError for settings that RandomErasing cannot work with."""
    if not isinstance(value, (int, float, str, tuple, list)):
        raise TypeError(f"RandomErasing: value must be a number, a sequence or 'random', got {shown(value)}")
    if isinstance(value, str) and value != "random":
        raise ValueError(f"RandomErasing: the only text that value can be is 'random', got {shown(value)}")
    for name, limits in (("scale", scale), ("ratio", ratio)):
        if not isinstance(limits, (tuple, list)):
            raise TypeError(f"RandomErasing: {name} must be (low, high), got {shown(limits)}")
    if not (0 <= scale[0] <= scale[1] <= 1):
        raise ValueError(f"RandomErasing: scale must be two parts of the area, low and high, got {shown(scale)}")
    if not 0 <= p <= 1:
        raise ValueError(f"RandomErasing: p must be between 0 and 1, got {shown(p)}")


def erasing_value(value):
    """A list of numbers; None for noise."""
    return None if value == "random" else [float(v) for v in (value if isinstance(value, (tuple, list)) else [value])]
