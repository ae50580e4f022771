"""Layers that are computed together."""

from .fused import BNReLU2d as BNReLU2d
from .fused import BNReLU3d as BNReLU3d
from .fused import ConvAdd2d as ConvAdd2d
from .fused import ConvAddReLU2d as ConvAddReLU2d
from .fused import ConvBn1d as ConvBn1d
from .fused import ConvBn2d as ConvBn2d
from .fused import ConvBn3d as ConvBn3d
from .fused import ConvBnReLU1d as ConvBnReLU1d
from .fused import ConvBnReLU2d as ConvBnReLU2d
from .fused import ConvBnReLU3d as ConvBnReLU3d
from .fused import ConvReLU1d as ConvReLU1d
from .fused import ConvReLU2d as ConvReLU2d
from .fused import ConvReLU3d as ConvReLU3d
from .fused import LinearBn1d as LinearBn1d
from .fused import LinearLeakyReLU as LinearLeakyReLU
from .fused import LinearReLU as LinearReLU
from .fused import LinearTanh as LinearTanh
from .fused import _FusedModule as _FusedModule
