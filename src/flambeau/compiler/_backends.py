"""Programs as graphs, for backends of one's own: what was captured becomes a GraphModule that a function replaces."""

from operator import getitem

from .._graph import Program
from .._shown import shown
from ..fx import Graph, GraphModule
from ..nn import Module
from ..ops.kinds import OPS


def planner_of(backend):
    """What native code asks for a plan: it hands `backend` the program's graph and the tensors it begins with."""
    def plan(described, inputs):
        module, uses, slots = graph_module(Program(described))
        function = backend(module, [inputs[u] for u in uses])
        if not callable(function):
            raise TypeError(f"compile: the backend {shown(backend)} must return a function of the graph's inputs, not "
                            f"{shown(function)}")
        return function, uses, slots
    return plan


def graph_module(program):
    """(module, the uses that are its inputs, the slots whose values it returns as a tuple)."""
    writer = _Writer(program)
    for number in range(len(program.calls)):
        writer.add(number)
    slots = tuple(sorted(program.wanted))
    writer.graph.output(tuple(writer.values[slot] for slot in slots))
    return GraphModule(Module(), writer.graph), tuple(writer.inputs.values()), slots


class _Writer:
    def __init__(self, program):
        self.program, self.graph = program, Graph()
        self.values = {}  # slot -> node
        self.inputs = {}  # what a use from outside says -> its number
        self.nodes = {}   # the same -> its placeholder
        for call in program.calls:
            for u in call.uses():
                self._place(u)

    def _place(self, number):
        use = self.program.uses[number]
        if self.program.made_by[use.slot] < 0 and use not in self.nodes:
            self.inputs[use] = number
            self.nodes[use] = self.graph.placeholder(f"input_{len(self.nodes)}")
            self._describe(self.nodes[use], use)

    def _describe(self, node, use):
        node.meta["tensor_meta"] = {"shape": use.sizes, "dtype": use.dtype, "stride": use.strides}

    def _tensor(self, number):
        """The node of a use; where it is seen in another layout than it was made in, a view."""
        use = self.program.uses[number]
        if use in self.nodes:
            return self.nodes[use]
        node, made = self.values[use.slot], self.program.result(use.slot)
        if use.dtype != made.dtype:
            node = self.graph.call_method("view", (node, use.dtype))
        if (use.sizes, use.strides, use.offset) != (made.sizes, made.strides, made.offset):
            node = self.graph.call_function(OPS["as_strided"], (node, use.sizes, use.strides, use.offset))
            self._describe(node, use)
        return node

    def _argument(self, arg):
        if type(arg) is tuple and arg and arg[0] == "use":
            return self._tensor(arg[1])
        if type(arg) is tuple and arg and arg[0] == "uses":
            return [None if u < 0 else self._tensor(u) for u in arg[1]]
        return arg

    def add(self, number):
        """The node of one call, and one for each of its results where they are several."""
        call = self.program.calls[number]
        args, kwargs = [], {}
        for given, (name, keyword_only, optional, default) in zip(call.args, call.op.arguments, strict=True):
            value = self._argument(given)
            if not keyword_only:
                args.append(value)
            elif not optional or value != default:
                kwargs[name] = value
        node = self.graph.call_function(call.op, tuple(args), kwargs)
        results = [self.program.uses[u] for u in call.results]
        if len(results) == 1 and call.op.schema.endswith("-> Tensor"):
            self.values[results[0].slot] = node
            return self._describe(node, results[0])
        for k, use in enumerate(results):
            if use.slot not in self.values:
                self.values[use.slot] = self.graph.call_function(getitem, (node, k))
                self._describe(self.values[use.slot], use)
