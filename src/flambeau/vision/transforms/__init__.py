"""Transforms of pictures (v1): Pillow images and tensors [..., channels, height, width]; `v2` takes boxes too.

>>> import flambeau
>>> from flambeau.vision import transforms as T
>>> change = T.Compose([T.CenterCrop(2), T.ConvertImageDtype(flambeau.float32)])
>>> change(flambeau.full((3, 4, 4), 255, dtype=flambeau.uint8)).sum().item()
12.0
"""

import importlib as _importlib

from ..._shown import shown
from . import autoaugment as autoaugment
from . import functional as functional
from . import transforms as transforms
from .autoaugment import AugMix as AugMix
from .autoaugment import AutoAugment as AutoAugment
from .autoaugment import AutoAugmentPolicy as AutoAugmentPolicy
from .autoaugment import RandAugment as RandAugment
from .autoaugment import TrivialAugmentWide as TrivialAugmentWide
from .transforms import CenterCrop as CenterCrop
from .transforms import ColorJitter as ColorJitter
from .transforms import Compose as Compose
from .transforms import ConvertImageDtype as ConvertImageDtype
from .transforms import ElasticTransform as ElasticTransform
from .transforms import FiveCrop as FiveCrop
from .transforms import GaussianBlur as GaussianBlur
from .transforms import Grayscale as Grayscale
from .transforms import InterpolationMode as InterpolationMode
from .transforms import Lambda as Lambda
from .transforms import LinearTransformation as LinearTransformation
from .transforms import Normalize as Normalize
from .transforms import Pad as Pad
from .transforms import PILToTensor as PILToTensor
from .transforms import RandomAdjustSharpness as RandomAdjustSharpness
from .transforms import RandomAffine as RandomAffine
from .transforms import RandomApply as RandomApply
from .transforms import RandomAutocontrast as RandomAutocontrast
from .transforms import RandomChoice as RandomChoice
from .transforms import RandomCrop as RandomCrop
from .transforms import RandomEqualize as RandomEqualize
from .transforms import RandomErasing as RandomErasing
from .transforms import RandomGrayscale as RandomGrayscale
from .transforms import RandomHorizontalFlip as RandomHorizontalFlip
from .transforms import RandomInvert as RandomInvert
from .transforms import RandomOrder as RandomOrder
from .transforms import RandomPerspective as RandomPerspective
from .transforms import RandomPosterize as RandomPosterize
from .transforms import RandomResizedCrop as RandomResizedCrop
from .transforms import RandomRotation as RandomRotation
from .transforms import RandomSolarize as RandomSolarize
from .transforms import RandomVerticalFlip as RandomVerticalFlip
from .transforms import Resize as Resize
from .transforms import TenCrop as TenCrop
from .transforms import ToPILImage as ToPILImage
from .transforms import ToTensor as ToTensor


def __getattr__(name):
    if name == "v2":
        return _importlib.import_module(f"{__name__}.v2")
    raise AttributeError(f"module {__name__!r} has no attribute {shown(name)}")
