"""Layers for training before dynamic quantization."""

from . import modules as modules
from .modules import Linear as Linear
