"""Sparse tensors: a pattern of places and the values there. Each operator is one rule, found by name (rules.py)."""

from . import construct as construct
from . import convert as convert
from . import copies as copies
from . import elementwise as elementwise
from . import methods as methods
from . import printing as printing
from . import products as products
from . import reductions as reductions
from . import shapes as shapes
from . import softmax as softmax
from . import tensor as tensor
from . import types as types
