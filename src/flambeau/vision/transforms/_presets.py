"""What published weights expect of their inputs: one module per task, made by `weights.transforms()`."""

import flambeau
from flambeau import nn

from . import functional as F
from ._kinds import InterpolationMode

__all__ = ["ImageClassification", "ObjectDetection", "OpticalFlow", "SemanticSegmentation", "VideoClassification"]

_IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
_KINETICS = {"mean": (0.43216, 0.394666, 0.37645), "std": (0.22803, 0.22145, 0.216989)}


def _listed(value):
    """A number as the list of it; None and lists as they are."""
    return None if value is None else [value] if isinstance(value, int) else list(value)


def _tensor(img):
    """A picture as a tensor, a tensor as it is."""
    return img if isinstance(img, flambeau.Tensor) else F.pil_to_tensor(img)


class ObjectDetection(nn.Module):
    """Values from 0 to 1; the detectors resize for themselves."""

    def forward(self, img):
        return F.convert_image_dtype(_tensor(img), flambeau.float32)

    def describe(self):
        """What it does, in words."""
        return "Pictures, or tensors of (…, C, H, W), with values from 0 to 1."


class _Prepared(nn.Module):
    """Resized, cut from the middle, from 0 to 1, normalised; a step whose setting is None is left out."""

    def __init__(self, crop_size, resize_size, mean, std, interpolation, antialias):
        super().__init__()
        if crop_size is not None:
            self.crop_size = _listed(crop_size)
        self.resize_size, self.mean, self.std = _listed(resize_size), list(mean), list(std)
        self.interpolation, self.antialias = interpolation, antialias

    def forward(self, img):
        if self.resize_size is not None:
            img = F.resize(img, self.resize_size, interpolation=self.interpolation, antialias=self.antialias)
        if hasattr(self, "crop_size"):
            img = F.center_crop(img, self.crop_size)
        return F.normalize(F.convert_image_dtype(_tensor(img), flambeau.float32), mean=self.mean, std=self.std)

    def _settings(self):
        names = ("crop_size", "resize_size", "mean", "std", "interpolation")
        return {name: getattr(self, name) for name in names if hasattr(self, name)}

    def __repr__(self):
        rows = "".join(f"\n    {name}={value}" for name, value in self._settings().items())
        return f"{type(self).__name__}({rows}\n)"

    def describe(self):
        """What it does, in words."""
        return ("Pictures, or tensors of (…, C, H, W): resized, cut from the middle where there is a crop_size, values "
                f"from 0 to 1, normalised; {', '.join(f'{name}={value}' for name, value in self._settings().items())}.")


class ImageClassification(_Prepared):
    """For classifiers of images."""

    def __init__(self, *, crop_size, resize_size=256, mean=_IMAGENET["mean"], std=_IMAGENET["std"],
                 interpolation=InterpolationMode.BILINEAR, antialias=True):
        super().__init__(crop_size, resize_size, mean, std, interpolation, antialias)


class SemanticSegmentation(_Prepared):
    """For segmentation networks."""

    def __init__(self, *, resize_size, mean=_IMAGENET["mean"], std=_IMAGENET["std"],
                 interpolation=InterpolationMode.BILINEAR, antialias=True):
        super().__init__(None, resize_size, mean, std, interpolation, antialias)


class VideoClassification(_Prepared):
    """For classifiers of videos: (…, frames, C, H, W) becomes (…, C, frames, H, W)."""

    def __init__(self, *, crop_size, resize_size, mean=_KINETICS["mean"], std=_KINETICS["std"],
                 interpolation=InterpolationMode.BILINEAR):
        super().__init__(crop_size, resize_size, mean, std, interpolation, False)

    def forward(self, vid):
        frames = vid.shape[:-3]
        return super().forward(vid.flatten(0, -4)).unflatten(0, frames).transpose(-4, -3)


class OpticalFlow(nn.Module):
    """Both images with values from -1 to 1."""

    def forward(self, img1, img2):
        both = (F.convert_image_dtype(_tensor(img), flambeau.float32) for img in (img1, img2))
        return tuple(F.normalize(img, mean=[0.5, 0.5, 0.5], std=[0.5, 0.5, 0.5]).contiguous() for img in both)

    def describe(self):
        """What it does, in words."""
        return "Two pictures, or tensors of (…, C, H, W), with values from -1 to 1."
