"""From a graph to the plan that native code reads (bind/graph_plan.cpp says in which form)."""

from operator import getitem
from typing import NamedTuple

from ..fx import Node
from ._fusion import steps_of
from ._writer import Given, value_of
from .passes.matching import arguments


class Plan(NamedTuple):
    """Steps (leader, calls), results (slot, value), and how many of the first steps make values that are kept."""

    steps: tuple
    results: tuple
    kept: int


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
        return "given", a.entry, a.position
    if isinstance(a, Node):
        if a.op == "placeholder":
            return "outside", a.meta["number"]
        if "view" in a.meta:
            return "view", numbers[value_of(a)], a.meta["number"]
        return "made", numbers[a]
    if isinstance(a, (list, tuple)) and any(item is None or isinstance(item, Node) for item in a):
        return "list", tuple(_argument(item, numbers) for item in a)
    return a
