"""Layers for training before dynamic quantization."""

from .linear import Linear as Linear
