"""How operators are written with those of ONNX, one file for each family."""

from . import (
    activations,
    complex_numbers,
    convolution,
    creation,
    images,
    indexing,
    losses,
    networks,
    normalization,
    pointwise,
    pooling,
    products,
    reductions,
    views,
)
from ._table import PARTS as PARTS
from ._table import TABLE as TABLE
