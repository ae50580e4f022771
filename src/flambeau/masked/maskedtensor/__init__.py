"""Masked tensors: values, and a mask that says which of them count. Each operator is one rule, found by name
(rules.py).
"""

from . import core as core
from . import creation as creation
from . import layouts as layouts
from . import methods as methods
from . import moving as moving
from . import pointwise as pointwise
from . import products as products
from . import reductions as reductions
from .core import is_masked_tensor as is_masked_tensor
from .creation import as_masked_tensor as as_masked_tensor
from .creation import masked_tensor as masked_tensor
