"""Quantized layers: dynamic ones, and how their weights are packed."""

from . import dynamic as dynamic
from . import modules as modules
from .modules import FloatFunctional as FloatFunctional
from .modules import FXFloatFunctional as FXFloatFunctional
from .modules import QFunctional as QFunctional
