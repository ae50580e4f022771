"""What is done with a program that is new: it becomes a graph, is rewritten, and is laid out in steps."""

from ._logs import LOGS, log, rewritten, steps_text
from ._lowering import lower
from ._program import Program
from ._writer import Writer, has_effect
from .passes.algebra import simplify
from .passes.common import common_subexpressions
from .passes.constants import fold_constants
from .passes.fast_math import fast_math
from .passes.images import convolutions_with_tails
from .passes.norms import norms_of_halves
from .passes.products import (
    join_products,
    products_with_epilogues,
    products_with_rough_epilogues,
    products_with_tails,
)
from .passes.recompute import recompute
from .passes.writes import forward_writes

PASSES = (forward_writes, simplify, common_subexpressions, fast_math, convolutions_with_tails, products_with_tails,
          products_with_epilogues, products_with_rough_epilogues, norms_of_halves, join_products, recompute,
          fold_constants)
#: these make operators that only the CPU has; and on a GPU what is computed again costs passes over memory, of which it
#: has more than time
OF_CPU = (convolutions_with_tails, products_with_tails, join_products, recompute)
#: these make what NVIDIA's libraries, or kernels for GPUs, do in one call
OF_CUDA = (products_with_epilogues, products_with_rough_epilogues, norms_of_halves)
#: these round differently
ROUGH = (fast_math, products_with_rough_epilogues)


def plan(described):
    """The steps of a program, for native code."""
    writer = Writer(Program(described))
    graph = writer.graph
    if "graph" in LOGS:
        log("graph", f"a new program of {len(writer.program.calls)} calls", graph)
    for rewrite in (without_dead_code, *PASSES):
        if (rewrite in ROUGH and not writer.program.fast) or rewrite in (OF_CUDA if writer.program.on_cpu else OF_CPU):
            continue
        if "passes" in LOGS:
            rewritten(graph, rewrite)
        else:
            rewrite(graph)
    made = lower(graph, writer.wanted)
    if "plan" in LOGS:
        log("plan", f"{len(made.steps)} steps", steps_text(made))
    return made.encoded()


def without_dead_code(graph):
    """Calls that nobody needs are left out."""
    graph.eliminate_dead_code(has_effect)
