"""What is done with a program that is new: it becomes a graph, is rewritten, and is laid out in steps."""

from ._lowering import lower
from ._program import Program
from ._writer import Writer
from .passes import PASSES


def plan(described):
    """The steps of a program, for native code."""
    writer = Writer(Program(described))
    writer.graph.eliminate_dead_code()
    for rewrite in PASSES:
        rewrite(writer.graph)
    return lower(writer.graph, writer.wanted)
