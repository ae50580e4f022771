"""From a graph to the plan that native code reads (native/runtime/plan_reader.cpp says in which form)."""

from operator import getitem
from typing import NamedTuple

from .._graph.words import Numbered, Words, native_name, write_operand
from ..fx import Node
from ._fusion import steps_of
from ._writer import Given, value_of
from .passes.matching import arguments


class Plan(NamedTuple):
    """Steps (leader, calls), results (slot, value), and how many of the first steps make values that are kept."""

    steps: tuple
    results: tuple
    kept: int

    def encoded(self):
        """As native code reads it."""
        words = Words()
        words.items(self.steps, lambda step: _write_step(words, *step))
        words.items(self.results, lambda result: [words.number(n) for n in result])
        words.number(self.kept)
        return words.bytes()


def _write_step(words, leader, calls):
    words.number(leader)
    words.items(calls, lambda call: _write_call(words, *call))


def _write_call(words, op, args, makes, entry):
    name, inplace = native_name(op)
    words.text(name)
    words.number(inplace)
    words.items(args, lambda a: write_operand(words, a))
    words.numbers(makes)
    words.number(entry)


def lower(graph, slots):
    """`slots` are those of the program whose values the graph returns, in its order."""
    numbers = {}  # value -> its number
    groups = sorted(steps_of(graph), key=lambda step: "constant" not in step[0].meta)
    steps = tuple((calls.index(leader), tuple(_call(node, numbers) for node in calls)) for leader, calls in groups)
    output = next(iter(reversed(graph.nodes)))
    results = tuple((slot, numbers[node]) for slot, node in zip(slots, output.args[0], strict=True))
    return Plan(steps, results, sum("constant" in leader.meta for leader, _ in groups))


def _call(node, numbers):
    """(operator, arguments, values it makes, its entry in the program)"""
    args, entry = tuple(_argument(a, numbers) for a in arguments(node).values()), node.meta.get("entry", -1)
    if "use" in node.meta:
        return node.target, args, (_number(node, numbers),), entry
    parts = {user.args[1]: user for user in node.users if user.target is getitem}
    makes = tuple(_number(parts[k], numbers) if k in parts else -1 for k in range(node.meta["results"]))
    return node.target, args, makes, entry


def _number(node, numbers):
    return numbers.setdefault(node, len(numbers))


def _argument(a, numbers):
    if isinstance(a, Given):
        return Numbered("given", a.entry, a.position)
    if isinstance(a, Node):
        if a.op == "placeholder":
            return Numbered("outside", a.meta["number"])
        if "view" in a.meta:
            return Numbered("view", numbers[value_of(a)], a.meta["number"])
        return Numbered("made", numbers[a])
    if isinstance(a, (list, tuple)):
        return tuple(_argument(item, numbers) for item in a)
    return a
