"""Layers that are computed together, on codes (static) and with quantized weights (dynamic)."""

from . import dynamic as dynamic
from . import modules as modules
from .modules import BNReLU2d as BNReLU2d
from .modules import BNReLU3d as BNReLU3d
from .modules import ConvAdd2d as ConvAdd2d
from .modules import ConvAddReLU2d as ConvAddReLU2d
from .modules import ConvReLU1d as ConvReLU1d
from .modules import ConvReLU2d as ConvReLU2d
from .modules import ConvReLU3d as ConvReLU3d
from .modules import LinearLeakyReLU as LinearLeakyReLU
from .modules import LinearReLU as LinearReLU
from .modules import LinearTanh as LinearTanh
