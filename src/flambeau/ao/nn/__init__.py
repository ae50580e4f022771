"""Quantized layers."""

from . import quantized as quantized
