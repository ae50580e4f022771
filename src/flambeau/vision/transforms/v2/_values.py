"""Transforms (v2) of the values of pixels."""

from collections.abc import Sequence

from .... import rand, randperm
from ...._shown import shown
from .. import _color, _draws, _values
from . import functional as F
from ._transform import RandomlyApplied, Transform, query_chw


class Grayscale(Transform):
    """Without color, in one channel or three."""

    def __init__(self, num_output_channels=1):
        super().__init__()
        self.num_output_channels = num_output_channels

    def transform(self, inpt, params):
        return self._call_kernel(F.rgb_to_grayscale, inpt, num_output_channels=self.num_output_channels)


class RGB(Transform):
    """Three channels, also of a gray picture."""

    def transform(self, inpt, params):
        return self._call_kernel(F.grayscale_to_rgb, inpt)


class RandomGrayscale(RandomlyApplied):
    """Without color with probability p; the number of channels stays."""

    def __init__(self, p=0.1):
        super().__init__(p)

    def make_params(self, flat_inputs):
        return {"num_output_channels": query_chw(flat_inputs)[0]}

    def transform(self, inpt, params):
        return self._call_kernel(F.rgb_to_grayscale, inpt, **params)


_CHANGES = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue)


class ColorJitter(Transform):
    """Brightness, contrast, saturation and hue changed by drawn amounts, in a drawn order."""

    def __init__(self, brightness=None, contrast=None, saturation=None, hue=None):
        super().__init__()
        for name, value in (("brightness", brightness), ("contrast", contrast), ("saturation", saturation)):
            setattr(self, name, None if value is None else _draws.symmetric(value, name, "ColorJitter"))
        self.hue = None if hue is None else _draws.symmetric(hue, "hue", "ColorJitter", 0, (-0.5, 0.5), clip=False)

    def make_params(self, flat_inputs):
        order, *amounts = _draws.jitter(self.brightness, self.contrast, self.saturation, self.hue)
        return {"steps": [(_CHANGES[k], amounts[k]) for k in order.tolist() if amounts[k] is not None]}

    def transform(self, inpt, params):
        for change, amount in params["steps"]:
            inpt = self._call_kernel(change, inpt, amount)
        return inpt


class RandomChannelPermutation(Transform):
    """The channels in a drawn order."""

    def make_params(self, flat_inputs):
        return {"permutation": randperm(query_chw(flat_inputs)[0]).tolist()}

    def transform(self, inpt, params):
        return self._call_kernel(F.permute_channels, inpt, **params)


class RandomPhotometricDistort(Transform):
    """Colors changed as for SSD (Howard 2013): each change with probability p, contrast first or after the hue."""

    def __init__(self, brightness=(0.875, 1.125), contrast=(0.5, 1.5), saturation=(0.5, 1.5), hue=(-0.05, 0.05), p=0.5):
        super().__init__()
        self.brightness, self.contrast, self.saturation, self.hue, self.p = brightness, contrast, saturation, hue, p

    def make_params(self, flat_inputs):
        channels = query_chw(flat_inputs)[0]
        amounts = [_draws.uniform(*limits) if _draws.chance(self.p) else None
                   for limits in (self.brightness, self.contrast, self.saturation, self.hue)]
        order = (0, 1, 2, 3) if rand(()).item() < 0.5 else (0, 2, 3, 1)
        return {"steps": [(_CHANGES[k], amounts[k]) for k in order if amounts[k] is not None],
                "permutation": randperm(channels).tolist() if _draws.chance(self.p) else None}

    def transform(self, inpt, params):
        for change, amount in params["steps"]:
            inpt = self._call_kernel(change, inpt, amount)
        if params["permutation"] is not None:
            inpt = self._call_kernel(F.permute_channels, inpt, permutation=params["permutation"])
        return inpt


class RandomEqualize(RandomlyApplied):
    """Each channel's values spread evenly with probability p."""

    def transform(self, inpt, params):
        return self._call_kernel(F.equalize, inpt)


class RandomInvert(RandomlyApplied):
    """The negative with probability p."""

    def transform(self, inpt, params):
        return self._call_kernel(F.invert, inpt)


class RandomAutocontrast(RandomlyApplied):
    """Each channel stretched over the whole range with probability p."""

    def transform(self, inpt, params):
        return self._call_kernel(F.autocontrast, inpt)


class RandomPosterize(RandomlyApplied):
    """Only the first `bits` bits of each value, with probability p."""

    def __init__(self, bits, p=0.5):
        super().__init__(p)
        self.bits = bits

    def transform(self, inpt, params):
        return self._call_kernel(F.posterize, inpt, bits=self.bits)


class RandomSolarize(RandomlyApplied):
    """What is at or above the threshold is inverted, with probability p."""

    def __init__(self, threshold, p=0.5):
        super().__init__(p)
        self.threshold = threshold

    def transform(self, inpt, params):
        return self._call_kernel(F.solarize, inpt, threshold=self.threshold)


class RandomAdjustSharpness(RandomlyApplied):
    """Smoothed or sharpened by a given factor with probability p."""

    def __init__(self, sharpness_factor, p=0.5):
        super().__init__(p)
        self.sharpness_factor = sharpness_factor

    def transform(self, inpt, params):
        return self._call_kernel(F.adjust_sharpness, inpt, sharpness_factor=self.sharpness_factor)


class GaussianBlur(Transform):
    """Smoothed with a Gaussian whose sigma is drawn from a range."""

    def __init__(self, kernel_size, sigma=(0.1, 2.0)):
        super().__init__()
        kernel, _ = _color.blur_settings(kernel_size, None, "GaussianBlur")
        self.kernel_size = tuple(kernel)
        self.sigma = [float(s) for s in _values.sigma_range(sigma)]

    def make_params(self, flat_inputs):
        sigma = _draws.uniform(*self.sigma)
        return {"sigma": [sigma, sigma]}

    def transform(self, inpt, params):
        return self._call_kernel(F.gaussian_blur, inpt, self.kernel_size, **params)


class GaussianNoise(Transform):
    """Noise added to each value; `clip` keeps them between 0 and 1."""

    def __init__(self, mean=0.0, sigma=0.1, clip=True):
        super().__init__()
        self.mean, self.sigma, self.clip = mean, sigma, clip

    def transform(self, inpt, params):
        return self._call_kernel(F.gaussian_noise, inpt, mean=self.mean, sigma=self.sigma, clip=self.clip)


class Normalize(Transform):
    """(picture - mean) / std, per channel."""

    def __init__(self, mean, std, inplace=False):
        super().__init__()
        self.mean, self.std, self.inplace = list(mean), list(std), inplace

    def transform(self, inpt, params):
        return self._call_kernel(F.normalize, inpt, mean=self.mean, std=self.std, inplace=self.inplace)


class RandomErasing(RandomlyApplied):
    """A window filled with a value, or with noise (`value="random"`), with probability p."""

    def __init__(self, p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0.0, inplace=False):
        super().__init__(p)
        _values.check_erasing(p, scale, ratio, value)
        self.scale, self.ratio, self.inplace = scale, ratio, inplace
        self.value = _values.erasing_value(value)

    def make_params(self, flat_inputs):
        channels, height, width = query_chw(flat_inputs)
        if self.value is not None and len(self.value) not in (1, channels):
            raise ValueError(f"RandomErasing: value must have 1 number or one per channel ({channels}), "
                             f"got {shown(self.value)}")
        window = _draws.erasing((height, width), self.scale, self.ratio)
        if window is None:
            return {}
        fill = _values.erasing_fill(channels, window, self.value)
        (top, left), (h, w) = _draws.place((height, width), window), window
        return {"i": top, "j": left, "h": h, "w": w, "v": fill}

    def transform(self, inpt, params):
        return self._call_kernel(F.erase, inpt, **params, inplace=self.inplace) if params else inpt


class JPEG(Transform):
    """Written as JPEG with a drawn quality, and read again."""

    def __init__(self, quality):
        super().__init__()
        low, high = (quality, quality) if isinstance(quality, int) else tuple(quality)
        if not (isinstance(quality, (int, Sequence)) and 1 <= low <= high <= 100):
            raise ValueError(f"JPEG: quality must be between 1 and 100, as a number or (low, high), "
                             f"got {shown(quality)}")
        self.quality = [low, high]

    def make_params(self, flat_inputs):
        return {"quality": _draws.whole(self.quality[0], self.quality[1] + 1)}

    def transform(self, inpt, params):
        return self._call_kernel(F.jpeg, inpt, **params)
