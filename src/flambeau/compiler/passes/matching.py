"""What rewritings ask of a node."""

from operator import getitem

from ...fx import Node
from ...ops.kinds import OPS
from .._writer import value_of


def calls(node, name):
    """Whether the node calls the operator of this name, in the form that native code knows."""
    return isinstance(node, Node) and node.op == "call_function" and getattr(node.target, "name", None) == name


def arguments(node):
    """All arguments of a call by name, with what stands for those that were left out."""
    values = dict(zip((name for name, *_ in node.target.arguments), node.args, strict=False))
    return {name: values[name] if name in values else node.kwargs.get(name, default)
            for name, _, _, default in node.target.arguments}


def only_user(node):
    """The one node that uses this one, or None."""
    users = list(node.users)
    return users[0] if len(users) == 1 and users[0].op == "call_function" else None


def is_value(node):
    """Whether it is a tensor that a call of the graph makes: not one from outside, and no view."""
    return isinstance(node, Node) and node.op == "call_function" and "use" in node.meta and "view" not in node.meta


def part(node, index):
    """The one result that is used of a call with several, if it is that one."""
    user = only_user(node)
    return user if user is not None and user.target is getitem and user.args[1] == index else None


def needs(node, other):
    """Whether the node's value depends on that of the other."""
    seen, ahead = set(), [node]
    while ahead:
        for n in ahead.pop().all_input_nodes:
            if n is other:
                return True
            if n not in seen:
                seen.add(n)
                ahead.append(n)
    return False


def untouched(values, start, end):
    """Whether from one call to another nobody writes to the memory from outside that these values show."""
    shown = [value_of(v) for v in values if v is not None]
    slots = {v.meta["use"].slot for v in shown if v.op == "placeholder"}
    while start is not end:
        if slots & start.meta.get("writes", frozenset()):
            return False
        start = start.next
    return True


def put(graph, before, name, args, like):
    """A call of the operator before a node, whose value is laid out as that of `like`."""
    with graph.inserting_before(before):
        node = graph.call_function(OPS[name], args)
    node.meta.update(like.meta)
    return node
