"""Names of torchvision's models for int8."""

from . import _refusals

globals().update(_refusals.FOUND)
