"""Nested tensors: batches of tensors of different sizes. Each operator is one rule, found by name (rules.py)."""

from . import along as along
from . import attention as attention
from . import construct as construct
from . import copies as copies
from . import methods as methods
from . import padding as padding
from . import pointwise as pointwise
from . import printing as printing
from . import products as products
from . import shapes as shapes
from . import tensor as tensor
from .rules import write as _write

pointwise.register(_write)
