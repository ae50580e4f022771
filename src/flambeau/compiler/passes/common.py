"""Common subexpressions: what is computed twice from the same values is computed once.

    sub(x, mean), …, sub(x, mean)      two calls of one operator with the same arguments
    sub(x, mean)                       one, whose value both places read
"""

from ...fx import Node
from .._writer import has_effect


def common_subexpressions(graph):
    """Numbers that stand in different places of the program count as different: they may be, in another run."""
    known = {}
    for node in list(graph.nodes):
        if node.op not in ("call_function", "call_method") or has_effect(node):
            continue
        key = (node.op, node.target, _key(node.args), _key(node.kwargs))
        first = known.setdefault(key, node)
        if first is not node and _interchangeable(first, node):
            node.replace_all_uses_with(first)
            graph.erase_node(node)


def _interchangeable(first, node):
    """Whether both values are laid out alike where layouts are known."""
    one, two = first.meta.get("use"), node.meta.get("use")
    return (one is None) == (two is None) and (one is None or one[1:5] == two[1:5])


def _key(arg):
    if isinstance(arg, Node):
        return "node", id(arg)
    if isinstance(arg, dict):
        return tuple((name, _key(value)) for name, value in arg.items())
    if isinstance(arg, (list, tuple)):
        return type(arg).__name__, *map(_key, arg)
    return type(arg), arg if isinstance(arg, (int, float, str, bool, type(None))) else id(arg)
