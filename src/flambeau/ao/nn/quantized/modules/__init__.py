"""Layers on codes, each with PyTorch's name, and the two that go from numbers to codes and back."""

import importlib

import flambeau
from flambeau import nn
from flambeau.nn import MaxPool2d as MaxPool2d

from ....._shown import shown
from . import activation as activation
from . import batchnorm as batchnorm
from . import conv as conv
from . import dropout as dropout
from . import embedding_ops as embedding_ops
from . import functional_modules as functional_modules
from . import linear as linear
from . import normalization as normalization
from . import utils as utils
from .activation import ELU as ELU
from .activation import Hardswish as Hardswish
from .activation import LeakyReLU as LeakyReLU
from .activation import PReLU as PReLU
from .activation import ReLU6 as ReLU6
from .activation import Sigmoid as Sigmoid
from .activation import Softmax as Softmax
from .batchnorm import BatchNorm2d as BatchNorm2d
from .batchnorm import BatchNorm3d as BatchNorm3d
from .conv import Conv1d as Conv1d
from .conv import Conv2d as Conv2d
from .conv import Conv3d as Conv3d
from .conv import ConvTranspose1d as ConvTranspose1d
from .conv import ConvTranspose2d as ConvTranspose2d
from .conv import ConvTranspose3d as ConvTranspose3d
from .dropout import Dropout as Dropout
from .embedding_ops import Embedding as Embedding
from .embedding_ops import EmbeddingBag as EmbeddingBag
from .embedding_ops import EmbeddingPackedParams as EmbeddingPackedParams
from .functional_modules import FloatFunctional as FloatFunctional
from .functional_modules import FXFloatFunctional as FXFloatFunctional
from .functional_modules import QFunctional as QFunctional
from .linear import Linear as Linear
from .linear import LinearPackedParams as LinearPackedParams
from .normalization import GroupNorm as GroupNorm
from .normalization import InstanceNorm1d as InstanceNorm1d
from .normalization import InstanceNorm2d as InstanceNorm2d
from .normalization import InstanceNorm3d as InstanceNorm3d
from .normalization import LayerNorm as LayerNorm
from .utils import WeightedQuantizedModule as WeightedQuantizedModule


class Quantize(nn.Module):
    """Numbers become codes of one scale.

    >>> import flambeau
    >>> flambeau.ao.nn.quantized.Quantize(0.5, 1, flambeau.quint8)(flambeau.tensor([1.0])).int_repr()
    tensor([3], dtype=torch.uint8)
    """

    def __init__(self, scale, zero_point, dtype, factory_kwargs=None):
        super().__init__()
        device = (factory_kwargs or {}).get("device")
        self.register_buffer("scale", flambeau.as_tensor([float(scale)], dtype=flambeau.float32).to(device))
        self.register_buffer("zero_point", flambeau.as_tensor([int(zero_point)], dtype=flambeau.int64).to(device))
        self.dtype = dtype

    def forward(self, X):
        return flambeau.quantize_per_tensor(X, float(self.scale), int(self.zero_point), self.dtype)

    @staticmethod
    def from_float(mod, use_precomputed_fake_quant=False):
        """The layer in place of an observed QuantStub."""
        observer = mod.activation_post_process
        scale, zero_point = observer.calculate_qparams()
        return Quantize(float(scale), int(zero_point), observer.dtype)

    def extra_repr(self):
        return f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}"


class DeQuantize(nn.Module):
    """Codes become numbers.

    >>> import flambeau
    >>> x = flambeau.quantize_per_tensor(flambeau.tensor([1.0]), 0.5, 1, flambeau.quint8)
    >>> flambeau.ao.nn.quantized.DeQuantize()(x)
    tensor([1.])
    """

    def forward(self, Xq):
        return Xq.dequantize()

    @staticmethod
    def from_float(mod, use_precomputed_fake_quant=False):
        """The layer in place of a DeQuantStub."""
        return DeQuantize()


def __getattr__(name):
    if name in ("LSTM", "MultiheadAttention"):  # not sooner: they are made of layers that are made of those here
        return getattr(importlib.import_module(f"{__name__}.observed"), name)
    raise AttributeError(f"module {__name__} has no attribute {shown(name)}")
