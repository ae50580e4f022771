"""Layers that are computed together."""

from . import quantized as quantized
