"""Dynamic quantized layers."""

from .linear import Linear as Linear
from .rnn import LSTM as LSTM
