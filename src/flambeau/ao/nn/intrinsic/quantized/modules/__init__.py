"""Layers on codes that are computed together."""

from . import bn_relu as bn_relu
from . import conv_add as conv_add
from . import conv_relu as conv_relu
from . import linear_relu as linear_relu
from .bn_relu import BNReLU2d as BNReLU2d
from .bn_relu import BNReLU3d as BNReLU3d
from .conv_add import ConvAdd2d as ConvAdd2d
from .conv_add import ConvAddReLU2d as ConvAddReLU2d
from .conv_relu import ConvReLU1d as ConvReLU1d
from .conv_relu import ConvReLU2d as ConvReLU2d
from .conv_relu import ConvReLU3d as ConvReLU3d
from .linear_relu import LinearLeakyReLU as LinearLeakyReLU
from .linear_relu import LinearReLU as LinearReLU
from .linear_relu import LinearTanh as LinearTanh
