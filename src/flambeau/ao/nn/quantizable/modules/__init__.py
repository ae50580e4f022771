"""Layers written out in parts that can be observed."""

from .activation import MultiheadAttention as MultiheadAttention
from .rnn import LSTM as LSTM
from .rnn import LSTMCell as LSTMCell
