"""Layers of reference."""

from .conv import Conv1d as Conv1d
from .conv import Conv2d as Conv2d
from .conv import Conv3d as Conv3d
from .conv import ConvTranspose1d as ConvTranspose1d
from .conv import ConvTranspose2d as ConvTranspose2d
from .conv import ConvTranspose3d as ConvTranspose3d
from .linear import Linear as Linear
from .rnn import GRU as GRU
from .rnn import LSTM as LSTM
from .rnn import GRUCell as GRUCell
from .rnn import LSTMCell as LSTMCell
from .rnn import RNNCell as RNNCell
from .sparse import Embedding as Embedding
from .sparse import EmbeddingBag as EmbeddingBag
