"""Writes: what was written to memory is read from where it came from, and a write that is written over is not made.

    copy_(p, a);  b = mul(p, 2);  copy_(p, b)
    b = mul(a, 2);  copy_(p, b)

Only pointwise calls read the value instead of the memory: they may be computed together with it. For others the value
would have to be kept beside the memory. The value must be laid out as the memory is: the layout of results, and the
order in which random numbers are used up, follow from that of the arguments.
"""

from typing import NamedTuple

from ...fx import Node
from .._writer import has_effect
from .matching import calls, is_value


class Store(NamedTuple):
    """A value that a call writes to a layout (`use`) of memory from outside. `same`: it is laid out so itself."""

    call: object
    use: object
    value: object
    same: bool


def store_of(node):
    """The Store that a node is, or None. Its value is None where it is converted or expanded for it."""
    if not calls(node, "copy_") or node.args[0].op != "placeholder":
        return None
    use, value = node.args[0].meta["use"], node.args[1]
    if not is_value(value) or value.meta["use"][1:3] != use[1:3]:
        return Store(node, use, None, False)
    return Store(node, use, value, value.meta["use"].strides == use.strides)


def forward_writes(graph):
    """One walk in order."""
    stored = {}   # slot -> the last Store, if all of it is known
    read = set()  # those of them whose memory somebody reads
    for node in list(graph.nodes):
        store = store_of(node)
        for source in _reads(node, store):
            last = stored.get(source.meta["use"].slot)
            if last is None:
                continue
            if last.use == source.meta["use"] and last.same and _is_pointwise(node, store):
                _replace(node, store, source, last.value)
            else:
                read.add(last)
        if store:
            store = store_of(node)
            before = stored.get(store.use.slot)
            if before is not None and before not in read and before.use == store.use:
                graph.erase_node(before.call)
            stored[store.use.slot] = store
        else:
            for slot in node.meta.get("writes", ()):
                stored.pop(slot, None)
    graph.eliminate_dead_code(has_effect)


def _reads(node, store):
    """The placeholders that it reads."""
    found = [node.args[1]] if store else node.all_input_nodes
    return [n for n in found if isinstance(n, Node) and n.op == "placeholder"]


def _is_pointwise(node, store):
    return store is not None or getattr(node.target, "kind", None) == "elementwise"


def _replace(node, store, source, value):
    if store:
        node.args = (node.args[0], value, *node.args[2:])
    else:
        node.replace_input_with(source, value)
