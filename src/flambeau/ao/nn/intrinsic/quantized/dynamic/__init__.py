"""Layers with quantized weights that are computed together."""

from . import modules as modules
from .modules import LinearReLU as LinearReLU
