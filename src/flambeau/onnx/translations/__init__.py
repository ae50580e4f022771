"""How operators are written with those of ONNX, one file for each family."""

from . import (
    activations,
    comparisons,
    complex_numbers,
    convolution,
    creation,
    functions,
    images,
    indexing,
    losses,
    networks,
    normalization,
    padding,
    pointwise,
    pooling,
    products,
    reductions,
    views,
)
from ._table import PARTS as PARTS
from ._table import TABLE as TABLE
