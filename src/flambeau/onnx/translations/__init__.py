"""How operators are written with those of ONNX, one file for each family."""

from . import (
    activations,
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
from ._table import TABLE as TABLE
