"""Types of items, taken from the types of what they are items of."""

import operator
import typing


def annotate_getitem_nodes(graph):
    """Gives a type to each `x[i]` whose x has a type such as tuple[int, Tensor], list[int] or a NamedTuple."""
    for node in graph.find_nodes(op="call_function", target=operator.getitem):
        owner, key = node.args[0], node.args[1]
        kind = getattr(owner, "type", None)
        if node.type is not None or kind is None:
            continue
        arguments = typing.get_args(kind)
        if typing.get_origin(kind) is tuple and isinstance(key, int):
            node.type = arguments[0] if len(arguments) == 2 and arguments[1] is ... else arguments[key]
        elif typing.get_origin(kind) is list and isinstance(key, int):
            node.type = arguments[0]
        elif typing.get_origin(kind) is dict:
            node.type = arguments[1]
        elif hasattr(kind, "_fields") and isinstance(key, int):
            node.type = typing.get_type_hints(kind).get(kind._fields[key])
