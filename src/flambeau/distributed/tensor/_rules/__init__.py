"""Which cuts of its tensors each operator can work on: a table, operator name -> function(call) -> Rule."""

from . import layers as layers
from . import pointwise as pointwise
from . import products as products
from . import reductions as reductions
from . import shapes as shapes
from ._rule import RULES as RULES
from ._rule import Rule as Rule
from .pointwise import elementwise


def rule_of(call):
    """The Rule of a call; None where there is none."""
    name = call.name
    found = RULES.get(name) or RULES.get(name.removesuffix("_"))
    if found is not None:
        return found(call)
    return elementwise(call) if call.func.kind == "elementwise" else None
