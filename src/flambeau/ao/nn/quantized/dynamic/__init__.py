"""Layers whose weights are quantized once, and whose activations are for each call."""

from . import modules as modules
from .modules import LSTM as LSTM
from .modules import Linear as Linear
