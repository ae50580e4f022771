"""Layers of reference: they compute in floats with weights that went through their codes."""

from . import modules as modules
from .modules import GRU as GRU
from .modules import LSTM as LSTM
from .modules import Conv1d as Conv1d
from .modules import Conv2d as Conv2d
from .modules import Conv3d as Conv3d
from .modules import ConvTranspose1d as ConvTranspose1d
from .modules import ConvTranspose2d as ConvTranspose2d
from .modules import ConvTranspose3d as ConvTranspose3d
from .modules import Embedding as Embedding
from .modules import EmbeddingBag as EmbeddingBag
from .modules import GRUCell as GRUCell
from .modules import Linear as Linear
from .modules import LSTMCell as LSTMCell
from .modules import RNNCell as RNNCell
