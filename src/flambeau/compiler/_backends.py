"""Backends of one's own: what was captured becomes a GraphModule that a function replaces."""

from .._shown import shown
from ..fx import GraphModule
from ..nn import Module
from ._program import Program
from ._writer import Writer


def planner_of(backend):
    """What native code asks for a plan: it hands `backend` the program's graph and the tensors it begins with."""
    def plan(described, inputs):
        writer = Writer(Program(described))
        module, uses = GraphModule(Module(), writer.graph), tuple(writer.inputs.values())
        function = backend(module, [inputs[u] for u in uses])
        if not callable(function):
            raise TypeError(f"compile: the backend {shown(backend)} must return a function of the graph's inputs, not "
                            f"{shown(function)}")
        return function, uses, tuple(writer.wanted)
    return plan
