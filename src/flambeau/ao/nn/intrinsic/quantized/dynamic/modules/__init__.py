"""Layers with quantized weights that are computed together."""

from . import linear_relu as linear_relu
from .linear_relu import LinearReLU as LinearReLU
