"""Quantized layers: dynamic ones, and how their weights are packed."""

from . import dynamic as dynamic
from . import modules as modules
