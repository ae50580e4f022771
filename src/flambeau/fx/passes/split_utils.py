"""`split_by_tags`: a module of submodules, one for each tag that its Nodes have."""

import operator
from dataclasses import dataclass, field

from ..._shown import shown
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import map_arg
from .utils.common import HolderModule, lift_subgraph_as_module

__all__ = ["Component", "getattr_recursive", "move_non_tensor_nodes_on_boundary", "setattr_recursive", "split_by_tags"]


def getattr_recursive(obj, name):
    """The attribute at a dotted name; None where it is missing."""
    for part in name.split("."):
        if not hasattr(obj, part):
            return None
        obj = getattr(obj, part)
    return obj


def setattr_recursive(obj, attr, value):
    """Sets the attribute at a dotted name."""
    *path, last = attr.split(".")
    for part in path:
        obj = getattr(obj, part)
    setattr(obj, last, value)


@dataclass
class Component:
    """One part while a module is split: its graph, and how its arguments and results map to the whole."""

    graph: Graph
    order: int
    name: str
    input_placeholders: list = field(default_factory=list)
    orig_inputs: list = field(default_factory=list)
    orig_outputs: list = field(default_factory=list)
    getattr_maps: dict = field(default_factory=dict)
    constructor_args: list = field(default_factory=list)
    gm: GraphModule | None = None


def move_non_tensor_nodes_on_boundary(subgraphs):
    """Moves Nodes that give no tensor, and stand at the end of a part that others use, into the part that uses them.

    `subgraphs`: objects with `nodes` (a list) and `is_acc`, in order.
    """
    part_of = {node: part for part in subgraphs for node in part.nodes}
    changed = True
    while changed:
        changed = False
        for part in subgraphs:
            for node in reversed(list(part.nodes)):
                targets = {id(part_of[u]): part_of[u] for u in node.users if u in part_of}
                kind = node.meta.get("type")
                if kind is None or len(targets) != 1 or part in targets.values() or _gives_tensor(node):
                    continue
                target = next(iter(targets.values()))
                if subgraphs.index(target) < subgraphs.index(part):
                    continue
                part.nodes.remove(node)
                target.nodes.insert(0, node)
                part_of[node] = target
                changed = True


def _gives_tensor(node):
    return "tensor_meta" in node.meta


def split_by_tags(gm, tags, return_fqn_mapping=False, return_tuple=False, GraphModuleCls=GraphModule):
    """A module that calls one submodule per tag, in the order of `tags`; every Node that calls something has a `tag`.

    Attributes of a Node are read in the part that uses them. return_tuple: parts return tuples even for one value.
    return_fqn_mapping: also {dotted name in gm: dotted name in the result}. GraphModuleCls: the class of the result.
    """
    parts = {tag: Component(Graph(), k, tag) for k, tag in enumerate(tags)}
    home, mapped = {}, {}   # Node -> its part; Node -> its copy there
    outer = Graph()
    outer_of, output = {}, None
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            outer_of[node] = outer.node_copy(node)
        elif node.op == "output":
            output = node
        elif node.op == "get_attr":
            continue
        elif not hasattr(node, "tag"):
            raise AssertionError(f"split_by_tags: {node} has no tag")
        else:
            _take(parts[node.tag], node, home, mapped)
    if output is None:
        raise RuntimeError("split_by_tags: the graph has no output")
    needed = _results(gm, output, home)
    renamed, holder = {}, {}
    for tag in tags:
        part = parts[tag]
        _finish(gm, part, needed.get(tag, []), mapped, return_tuple, renamed, holder)
        _call(outer, outer_of, part, return_tuple)

    def outside(node):
        if node.op == "get_attr" and node not in outer_of:
            outer_of[node] = outer.get_attr(node.target)
        return outer_of[node]

    outer.output(map_arg(output.args[0], outside), output.type)
    attributes = dict(holder)
    attributes.update({n.target: getattr_recursive(gm, n.target) for n in gm.graph.nodes
                       if n.op == "get_attr" and n in outer_of})
    result = GraphModuleCls(HolderModule(attributes), outer)
    return (result, renamed) if return_fqn_mapping else result


def _take(part, node, home, mapped):
    """Copies a Node into its part."""
    def inside(used):
        if used.op == "get_attr":
            if used not in part.getattr_maps:
                part.getattr_maps[used] = part.graph.get_attr(used.target, used.type)
            return part.getattr_maps[used]
        if home.get(used) is part:
            return mapped[used]
        if used not in part.orig_inputs:
            first = next(iter(part.graph.nodes), None)
            anchor = part.input_placeholders[-1] if part.input_placeholders else None
            with part.graph.inserting_after(anchor) if anchor else part.graph.inserting_before(first):
                placeholder = part.graph.placeholder(used.name, used.type)
            placeholder.meta = dict(used.meta)
            part.orig_inputs.append(used)
            part.input_placeholders.append(placeholder)
        return part.input_placeholders[part.orig_inputs.index(used)]

    copied = part.graph.node_copy(node, inside)
    copied.tag = node.tag
    home[node], mapped[node] = part, copied


def _results(gm, output, home):
    """{tag: Nodes of the part that others, or the output, use}."""
    found = {}
    for node in gm.graph.nodes:
        part = home.get(node)
        if part is not None and any(user is output or home.get(user) is not part for user in node.users):
            found.setdefault(part.name, []).append(node)
    return found


def _finish(gm, part, results, mapped, return_tuple, renamed, holder):
    part.orig_outputs = list(results)
    values = tuple(mapped[node] for node in results)
    part.graph.output(values[0] if len(values) == 1 and not return_tuple else values)
    part.gm, names = lift_subgraph_as_module(gm, part.graph, comp_name=part.name)
    renamed.update(names)
    holder[part.name] = part.gm


def _call(outer, outer_of, part, return_tuple):
    for used in part.orig_inputs:
        if used not in outer_of:
            raise RuntimeError(f"split_by_tags: the part {shown(part.name)} uses {used}, which a later part makes; "
                               "tags must be in an order in which every part comes after those that it uses")
    call = outer.call_module(part.name, tuple(outer_of[used] for used in part.orig_inputs))
    if len(part.orig_outputs) == 1 and not return_tuple:
        outer_of[part.orig_outputs[0]] = call
        return
    for k, node in enumerate(part.orig_outputs):
        outer_of[node] = outer.call_function(operator.getitem, (call, k))
