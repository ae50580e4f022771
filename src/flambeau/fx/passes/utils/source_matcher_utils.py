"""Parts of a graph by where they come from: Nodes whose meta names the same class or function."""

from dataclasses import dataclass, field

__all__ = ["SourcePartition", "check_subgraphs_connected", "get_source_partitions"]


@dataclass
class SourcePartition:
    """The Nodes of one source: which of them, what they take, what others use of them, and attributes they read."""

    nodes: list
    source: object
    input_nodes: list = field(default_factory=list)
    output_nodes: list = field(default_factory=list)
    params: list = field(default_factory=list)


def _source_of(node, classes):
    """(name of the group, class or function) that a Node comes from; `classes`: {name: class} of those that are asked
    for, since exported programs know the names of their modules' classes alone."""
    stack = node.meta.get("source_fn_stack") or node.meta.get("torch_fn")
    if isinstance(stack, list) and stack:
        return stack[-1]
    if isinstance(stack, tuple):
        return stack
    modules = node.meta.get("nn_module_stack")
    if not modules:
        return node.name, node.target
    call, (name, kind) = next(reversed(modules.items()))
    return (call, classes.get(kind)) if isinstance(kind, str) else (name, kind)


def get_source_partitions(graph, wanted_sources, filter_fn=None):
    """{source: [SourcePartition]} for each of the wanted classes and functions; filter_fn(node) leaves out parts with a
    Node for which it is false."""
    groups = {}
    classes = {f"{each.__module__}.{each.__qualname__}": each for each in wanted_sources if isinstance(each, type)}
    for node in graph.nodes:
        if node.op in ("placeholder", "output", "get_attr"):
            continue
        name, source = _source_of(node, classes)
        if source in wanted_sources:
            groups.setdefault(source, {}).setdefault(name, []).append(node)
    found = {}
    for source, named in groups.items():
        parts = [_part(nodes, source) for nodes in named.values()]
        if filter_fn is not None:
            parts = [p for p in parts if all(map(filter_fn, p.output_nodes))]
        if parts:
            found[source] = parts
    return found


def _part(nodes, source):
    members = set(nodes)
    inputs = {used: None for node in nodes for used in node.all_input_nodes if used not in members}
    outputs = [node for node in nodes if any(user not in members for user in node.users)]
    attributes = [used for used in inputs if used.op == "get_attr"]
    return SourcePartition(nodes, source, [n for n in inputs if n.op != "get_attr"], outputs, attributes)


def check_subgraphs_connected(subgraph1, subgraph2):
    """Whether the second part uses something of the first."""
    return any(used in subgraph1.nodes for node in subgraph2.nodes for used in node.all_input_nodes)
