"""From a captured program to an fx graph: a node for each call, whose meta says what is known of its value."""

from collections import Counter
from operator import getitem
from typing import NamedTuple

from ..fx import Graph
from ..ops.kinds import OPS

VIEW, COPY = OPS["as_strided"], OPS["copy_"]


class Given(NamedTuple):
    """An argument that a plan takes from the program that runs: its value here is that of the first such program."""

    entry: int
    position: int
    value: object

    def __repr__(self):
        return repr(self.value)


class Writer:
    """Writes `graph`. Afterwards `values` has the node of each slot, and `inputs` the use of each placeholder.

    meta["use"]: the layout in which a value was made. meta["number"]: of a placeholder and of a view, the number of its
    use in the program. meta["view"]: it is a view. meta["entry"]: of a call, its number in the program. meta["writes"]:
    of a call, the slots from outside that it writes to. What is read there before and after are different placeholders.
    """

    def __init__(self, program):
        self.program, self.graph = program, Graph()
        self.values = {}  # slot -> node
        self.inputs = {}  # what a use from outside says, and how often it was written to -> its number
        self.nodes = {}   # the same -> its placeholder
        self.written = Counter()  # slot -> how often, so far
        for call in program.calls:
            for u in call.uses():
                self._place(u)
            self.written.update(call.writes)
        self.written.clear()
        for number in range(len(program.calls)):
            self._add(number)
        self.wanted = sorted(program.wanted)
        self.graph.output(tuple(self.values[slot] for slot in self.wanted))

    def _place(self, number):
        use = self.program.uses[number]
        now = use, self.written[use.slot]
        if self.program.made_by[use.slot] < 0 and now not in self.nodes:
            self.inputs[now] = number
            self.nodes[now] = self.graph.placeholder(f"input_{len(self.nodes)}")
            describe(self.nodes[now], use, number)

    def _tensor(self, number):
        """The node of a use; where it is seen in another layout than it was made in, a view."""
        use = self.program.uses[number]
        if self.program.made_by[use.slot] < 0:
            return self.nodes[use, self.written[use.slot]]
        value, made = self.values[use.slot], self.program.result(use.slot)
        if use == made:
            return value
        node = value
        if use.dtype != made.dtype:
            node = self.graph.call_method("view", (node, use.dtype))
            node.meta["view"] = True
        if use.dtype == made.dtype or (use.sizes, use.strides, use.offset) != made[2:5]:
            node = self.graph.call_function(VIEW, (node, use.sizes, use.strides, use.offset))
        describe(node, use, number)
        node.meta["view"] = True
        return node

    def _argument(self, entry, arg):
        if type(arg) is not tuple:
            return arg
        kind, *rest = arg
        if kind == "use":
            return self._tensor(rest[0])
        if kind == "uses":
            return [None if u < 0 else self._tensor(u) for u in rest[0]]
        return Given(entry, *rest)

    def _add(self, number):
        """The node of one call, and one for each of its results where they are several."""
        call = self.program.calls[number]
        args, kwargs = [], {}
        for given, (name, keyword_only, optional, default) in zip(call.args, call.op.arguments, strict=True):
            value = self._argument(number, given)
            if not keyword_only:
                args.append(value)
            elif not optional or value != default:
                kwargs[name] = value
        node = self.graph.call_function(call.op, tuple(args), kwargs)
        node.meta["results"], node.meta["entry"] = len(call.results), number
        if call.writes and not call.stored:
            node.meta["writes"] = frozenset(call.writes)
            self.written.update(call.writes)
        results = [self.program.uses[u] for u in call.results]
        if call.stored:
            self.values[results[0].slot] = node
            describe(node, results[0])
            return self._store(args[0], node, number)
        if len(results) == 1 and call.op.schema.endswith("-> Tensor"):
            self.values[results[0].slot] = node
            return describe(node, results[0])
        for k, use in enumerate(results):
            if use.slot not in self.values:
                self.values[use.slot] = self.graph.call_function(getitem, (node, k))
                describe(self.values[use.slot], use)
                self.values[use.slot].meta["entry"] = number

    def _store(self, place, value, number):
        node = self.graph.call_function(COPY, (place, value, False))
        slot = place.meta["use"].slot
        node.meta.update({"results": 0, "entry": number, "writes": frozenset([slot])})
        self.written[slot] += 1


def describe(node, use, number=None):
    """Notes what is known of a node's value."""
    node.meta["use"] = use
    node.meta["tensor_meta"] = {"shape": use.sizes, "dtype": use.dtype, "stride": use.strides}
    if number is not None:
        node.meta["number"] = number


def has_effect(node):
    """Whether a call does more than computing its results: it writes to memory from outside, or draws random
    numbers."""
    return "writes" in node.meta or getattr(node.target, "random", False) is True


def value_of(node):
    """The value that a node is, or shows."""
    while "view" in node.meta:
        node = node.args[0]
    return node
