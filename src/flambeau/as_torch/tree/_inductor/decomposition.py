"""torch._inductor.decomposition: its compiler has a table of its own; here that of `_decomp` is the one there is."""

from .._decomp import decomposition_table as decompositions
from .._decomp import register_decomposition

__all__ = ["decompositions", "register_decomposition"]
