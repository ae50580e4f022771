"""Quantized layers: on codes (static), on numbers with quantized weights (dynamic), and their functions."""

from . import dynamic as dynamic
from . import functional as functional
from . import modules as modules
from .modules import ELU as ELU
from .modules import BatchNorm2d as BatchNorm2d
from .modules import BatchNorm3d as BatchNorm3d
from .modules import Conv1d as Conv1d
from .modules import Conv2d as Conv2d
from .modules import Conv3d as Conv3d
from .modules import ConvTranspose1d as ConvTranspose1d
from .modules import ConvTranspose2d as ConvTranspose2d
from .modules import ConvTranspose3d as ConvTranspose3d
from .modules import DeQuantize as DeQuantize
from .modules import Dropout as Dropout
from .modules import Embedding as Embedding
from .modules import EmbeddingBag as EmbeddingBag
from .modules import FloatFunctional as FloatFunctional
from .modules import FXFloatFunctional as FXFloatFunctional
from .modules import GroupNorm as GroupNorm
from .modules import Hardswish as Hardswish
from .modules import InstanceNorm1d as InstanceNorm1d
from .modules import InstanceNorm2d as InstanceNorm2d
from .modules import InstanceNorm3d as InstanceNorm3d
from .modules import LayerNorm as LayerNorm
from .modules import LeakyReLU as LeakyReLU
from .modules import Linear as Linear
from .modules import MaxPool2d as MaxPool2d
from .modules import PReLU as PReLU
from .modules import QFunctional as QFunctional
from .modules import Quantize as Quantize
from .modules import ReLU6 as ReLU6
from .modules import Sigmoid as Sigmoid
from .modules import Softmax as Softmax


def __getattr__(name):
    return getattr(modules, name)
