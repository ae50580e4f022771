"""From a call's signature to what native code launches for it."""

from . import (
    attention,
    by_libraries,
    channels,
    ctc,
    distances,
    folding,
    grids,
    indexing,
    moves,
    pools,
    products,
    random,
    reductions,
    regions,
    resizing,
    rows,
    scans,
    scattering,
    sequences,
    sorting,
    tables,
)
from .pointwise import lower_pointwise

#: operator -> function(call) -> Plan
RULES = (reductions.RULES | rows.RULES | channels.RULES | indexing.RULES | moves.RULES | scans.RULES | random.RULES
         | products.RULES | pools.RULES | sorting.RULES | attention.RULES | tables.RULES | scattering.RULES
         | folding.RULES | distances.RULES | grids.RULES | ctc.RULES | regions.RULES | sequences.RULES | resizing.RULES)


def lower(call):
    """The plan of one signature: a Pointwise for pointwise operators, a Plan for the rest.
    Raises NotImplementedError where an operator has no CUDA kernel."""
    if hasattr(call, "form"):
        return lower_pointwise(call)
    if (plan := by_libraries.lower(call)) is not None:
        return plan
    rule = RULES.get(call.name)
    if rule is None:
        raise NotImplementedError(f"{call.name} has no CUDA kernel yet; move the tensors to the CPU by .cpu()")
    return rule(call)
