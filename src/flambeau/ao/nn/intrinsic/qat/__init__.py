"""Fused layers for quantization-aware training: batch norms folded, weights through their codes."""

from . import modules as modules
from .modules import ConvBn1d as ConvBn1d
from .modules import ConvBn2d as ConvBn2d
from .modules import ConvBn3d as ConvBn3d
from .modules import ConvBnReLU1d as ConvBnReLU1d
from .modules import ConvBnReLU2d as ConvBnReLU2d
from .modules import ConvBnReLU3d as ConvBnReLU3d
from .modules import ConvReLU1d as ConvReLU1d
from .modules import ConvReLU2d as ConvReLU2d
from .modules import ConvReLU3d as ConvReLU3d
from .modules import LinearBn1d as LinearBn1d
from .modules import LinearReLU as LinearReLU
from .modules import freeze_bn_stats as freeze_bn_stats
from .modules import update_bn_stats as update_bn_stats
