"""Groups of Nodes become submodules: each group is one call_module Node afterwards."""

import operator

from ...graph import Graph
from .common import lift_subgraph_as_module

__all__ = ["erase_nodes", "fuse_as_graphmodule", "fuse_by_partitions", "insert_subgm", "topo_sort",
           "validate_partition"]


def topo_sort(nodes):
    """These Nodes so that each comes after those it uses: the order of their graph."""
    return sorted(nodes)


def validate_partition(partition):
    """Whether a group can be one Node: nothing outside lies between its Nodes."""
    members = set(partition)
    pending = [user for node in partition for user in node.users if user not in members]
    seen, last = set(), max(partition)
    while pending:
        node = pending.pop()
        if node in members:
            return False
        if node in seen or node > last:
            continue
        seen.add(node)
        pending.extend(node.users)
    return True


def fuse_as_graphmodule(gm, nodes, module_name, partition_lookup_table=None, *, always_return_tuple=False):
    """(a GraphModule of these Nodes, the Nodes outside that it takes, the Nodes whose results are used outside).

    partition_lookup_table: the group as a set or dict, where it is at hand. The Nodes stay in gm.
    """
    nodes = topo_sort(nodes)
    members = set(nodes) if partition_lookup_table is None else partition_lookup_table
    for node in nodes:
        if node.graph.owning_module is not gm:
            raise AssertionError(f"fuse_as_graphmodule: {node} belongs to another module")
    if not validate_partition(list(nodes)):
        raise AssertionError("fuse_as_graphmodule: a Node outside the group lies between its Nodes, so the group "
                             "cannot be one step")
    graph, made, taken = Graph(), {}, {}

    def inside(used):
        if used in members:
            return made[used]
        if used.op == "get_attr":
            if used not in made:
                made[used] = graph.node_copy(used)
            return made[used]
        if used not in taken:
            taken[used] = graph.placeholder(used.name, used.type)
            taken[used].meta = dict(used.meta)
        return taken[used]

    for node in nodes:
        made[node] = graph.node_copy(node, inside)
    results = [node for node in nodes if any(user not in members for user in node.users)]
    values = tuple(made[node] for node in results)
    graph.output(values[0] if len(values) == 1 and not always_return_tuple else values)
    _placeholders_first(graph)
    graph.lint()
    fused, _ = lift_subgraph_as_module(gm, graph, comp_name="", class_name=module_name)
    return fused, tuple(taken), tuple(results)


def _placeholders_first(graph):
    first = next(iter(graph.nodes))
    for node in [n for n in graph.nodes if n.op == "placeholder"]:
        if node is first:
            first = first.next
        else:
            first.prepend(node)


def insert_subgm(gm, sub_gm, orig_inputs, orig_outputs, insertion_point=None):
    """Adds a submodule and its call; what used orig_outputs uses its results. It stands before insertion_point, or
    after the last of orig_outputs."""
    name = type(sub_gm).__name__
    gm.add_submodule(name, sub_gm)
    place = gm.graph.inserting_before(insertion_point) if insertion_point is not None else \
        gm.graph.inserting_after(max(orig_outputs) if orig_outputs else None)
    with place:
        call = gm.graph.call_module(name, tuple(orig_inputs))
    output = sub_gm.graph.output_node()
    if len(orig_outputs) == 1 and not isinstance(output.args[0], tuple):
        orig_outputs[0].replace_all_uses_with(call, propagate_meta=True)
        return gm
    anchor = call
    for k, old in enumerate(orig_outputs):
        with gm.graph.inserting_after(anchor):
            anchor = gm.graph.call_function(operator.getitem, (call, k))
        old.replace_all_uses_with(anchor, propagate_meta=True)
    call.meta["val"] = tuple(old.meta.get("val") for old in orig_outputs)
    return gm


def erase_nodes(gm, nodes):
    """Removes Nodes, the last first."""
    for node in sorted(nodes, reverse=True):
        gm.graph.erase_node(node)


def fuse_by_partitions(gm, partitions, prefix="fused_", always_return_tuple=False):
    """gm with each group of Nodes (lists, sets or dicts) as a submodule called prefix0, prefix1 …"""
    for k, partition in enumerate(partitions):
        name = f"{prefix}{k}"
        nodes = topo_sort(list(partition))
        sub, inputs, outputs = fuse_as_graphmodule(gm, nodes, name, dict.fromkeys(nodes),
                                                   always_return_tuple=always_return_tuple)
        _gather(gm, nodes)
        insert_subgm(gm, sub, inputs, outputs, nodes[-1].next)
        erase_nodes(gm, nodes)
    gm.graph.lint()
    gm.recompile()
    return gm


def _gather(gm, nodes):
    """Moves the group together: what uses its results, and stands before its end, comes after it."""
    members, last = set(nodes), nodes[-1]
    later, anchor = set(members), last
    node = nodes[0]
    while node is not last:
        following = node.next
        if node not in members and any(used in later for used in node.all_input_nodes):
            anchor.append(node)
            anchor = node
            later.add(node)
        node = following
    gm.graph.lint()
