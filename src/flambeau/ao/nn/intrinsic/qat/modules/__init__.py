"""Fused layers for quantization-aware training."""

from ._batch_norm import freeze_bn_stats as freeze_bn_stats
from ._batch_norm import update_bn_stats as update_bn_stats
from .conv_fused import ConvBn1d as ConvBn1d
from .conv_fused import ConvBn2d as ConvBn2d
from .conv_fused import ConvBn3d as ConvBn3d
from .conv_fused import ConvBnReLU1d as ConvBnReLU1d
from .conv_fused import ConvBnReLU2d as ConvBnReLU2d
from .conv_fused import ConvBnReLU3d as ConvBnReLU3d
from .conv_fused import ConvReLU1d as ConvReLU1d
from .conv_fused import ConvReLU2d as ConvReLU2d
from .conv_fused import ConvReLU3d as ConvReLU3d
from .linear_fused import LinearBn1d as LinearBn1d
from .linear_relu import LinearReLU as LinearReLU
