"""Kernels for CUDA, made as text: formulas of pointwise operators, templates for the rest, compiled on first use."""

from .compiling import compile as compile
from .cudnn_rnn import kept_by_layers as kept_by_layers
from .lowering import lower as lower
from .named import named as named
from .plans import Plan as Plan
