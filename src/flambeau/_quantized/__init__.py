"""Quantized tensors: integer codes, and the scale by which they stand for numbers. Each operator is one rule, found by
name (rules.py)."""

from . import methods as methods
from . import moving as moving
from . import pointwise as pointwise
from . import printing as printing
from . import quantize as quantize
from . import rules as rules
from . import tensor as tensor
