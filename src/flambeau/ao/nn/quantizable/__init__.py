"""Layers written out in parts that can be observed, trained with fake quantization, and quantized."""

from . import modules as modules
from .modules import LSTM as LSTM
from .modules import LSTMCell as LSTMCell
from .modules import MultiheadAttention as MultiheadAttention
