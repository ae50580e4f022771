"""What is done with a program that has not been seen before: it becomes a graph, is rewritten, and laid out in steps."""

from ._lowering import lower
from ._program import Program
from ._writer import Writer


def plan(described):
    """The steps of a program, for native code."""
    writer = Writer(Program(described))
    writer.graph.eliminate_dead_code()
    return lower(writer.graph, writer.wanted)
