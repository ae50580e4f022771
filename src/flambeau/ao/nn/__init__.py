"""Layers of quantized models."""

from . import intrinsic as intrinsic
from . import quantized as quantized
