"""What splitters and matchers of graphs share: names of targets, groups that must stay together, order."""

import itertools
from dataclasses import dataclass, field

from ... import _C
from .._targets import qualified_name
from ..graph import Graph

__all__ = [
    "FxNetAccFusionsFinder",
    "get_acc_ops_name",
    "get_node_target",
    "is_node_output_tensor",
    "legalize_graph",
    "stable_topological_sort",
]

CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}


def get_acc_ops_name(k):
    """The name of a function, or a name as it is: "acc_ops.f" for those of modules whose name has acc_ops."""
    if isinstance(k, str):
        return k
    if k.__module__ and "acc_ops" in k.__module__:
        return f"acc_ops.{k.__name__}"
    return f"{k.__module__.replace('torch._ops', 'torch.ops')}.{k.__name__}"


def get_node_target(submodules, node):
    """What a Node calls as text: the class of a submodule, the dotted name of a function, the name of a method.

    >>> import flambeau
    >>> from flambeau.fx.passes.tools_common import get_node_target
    >>> gm = flambeau.fx.symbolic_trace(lambda x: flambeau.relu(x).sum())
    >>> [get_node_target({}, node) for node in gm.graph.nodes if node.op.startswith("call")]
    ['flambeau.relu', 'sum']
    """
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(f"get_node_target: expected a Node that calls something, got {node.op} {node}")
    if node.op == "call_module":
        module = submodules[node.target]
        kind = getattr(module, "_base_class_origin", type(module))
        return get_acc_ops_name(kind)
    if node.op == "call_function":
        return qualified_name(node.target) if "acc_ops" not in (getattr(node.target, "__module__", "") or "") \
            else get_acc_ops_name(node.target)
    return node.target


def is_node_output_tensor(node):
    """Whether meta["type"] says that the result is a tensor."""
    kind = node.meta.get("type")
    return kind is not None and issubclass(kind, _C.Tensor)


class FxNetAccFusionsFinder:
    """Groups of Nodes that a splitter must not part: those between which something flows that is no tensor.

    Calling it gives {Node: the Nodes of its group} for the Nodes of groups with more than one.
    """

    @dataclass
    class FusionGroup:
        """Nodes that stay together, what flows in, and the range of the graph they span."""

        top_node_idx: int
        nodes: set = field(default_factory=set)
        inputs: set = field(default_factory=set)
        nodes_need_process: set = field(default_factory=set)

        def add_node(self, node):
            """Takes a Node in."""
            if node in self.nodes:
                return
            self.nodes.add(node)
            self.nodes_need_process.add(node)
            self.inputs.discard(node)
            self.inputs.update(n for n in node.all_input_nodes if n.op in CALLABLE_NODE_OPS and n not in self.nodes)

    def __init__(self, module, acc_nodes):
        self.module, self.acc_nodes = module, acc_nodes
        self.nodes = list(module.graph.nodes)

    def recursive_add_node(self, fusion_group, inputs, visited=None):
        """Adds what lies between `inputs` and the group, since a group may not depend on itself through others; whether
        anything was added."""
        visited = set() if visited is None else visited
        found = False
        for node in inputs:
            if node in visited:
                continue
            visited.add(node)
            if node.op not in CALLABLE_NODE_OPS or self.nodes.index(node) < fusion_group.top_node_idx:
                continue
            if node in fusion_group.nodes or self.recursive_add_node(fusion_group, node.all_input_nodes, visited):
                fusion_group.add_node(node)
                found = True
        return found

    def __call__(self):
        result = {}
        for node in self.nodes:
            if node.op not in CALLABLE_NODE_OPS or node not in self.acc_nodes or "tensor_meta" in node.meta:
                continue
            group = self.FusionGroup(self.nodes.index(node))
            group.add_node(node)
            self._grow(group)
            if not group.nodes <= self.acc_nodes:
                self.acc_nodes -= group.nodes
            else:
                merged = set(group.nodes)
                for member in group.nodes:
                    merged |= result.get(member, set())
                for member in merged:
                    result[member] = merged
        return result

    def _grow(self, group):
        while group.nodes_need_process:
            node = group.nodes_need_process.pop()
            self.recursive_add_node(group, group.inputs)
            if "tensor_meta" not in node.meta:
                for user in node.users:
                    if user.op in CALLABLE_NODE_OPS and user not in group.nodes:
                        group.add_node(user)
                        self.recursive_add_node(group, group.inputs)
            for used in node.all_input_nodes:
                if used.op in CALLABLE_NODE_OPS and "tensor_meta" not in used.meta and used not in group.nodes:
                    group.add_node(used)
                    group.top_node_idx = min(group.top_node_idx, self.nodes.index(used))
                    self.recursive_add_node(group, group.inputs)


def _sorted_nodes(graph):
    """The Nodes so that each comes after what it uses, otherwise as they stand."""
    waiting = {node: len(node.all_input_nodes) for node in graph.nodes}
    order, ready = [], [node for node, count in waiting.items() if count == 0]
    position = {node: k for k, node in enumerate(graph.nodes)}
    ready.sort(key=position.__getitem__, reverse=True)
    while ready:
        node = ready.pop()
        order.append(node)
        for user in node.users:
            waiting[user] -= 1
            if waiting[user] == 0:
                ready.append(user)
        ready.sort(key=position.__getitem__, reverse=True)
    if len(order) < len(position):
        stuck = next(node for node in position if waiting[node] > 0)
        raise RuntimeError(f"legalize_graph: {stuck} depends on itself")
    return order


def legalize_graph(gm):
    """Puts the Nodes of gm's graph into an order in which each comes after what it uses; the output comes last."""
    order = _sorted_nodes(gm.graph)
    made, new = {}, Graph(tracer_cls=gm.graph._tracer_cls)
    new._codegen = gm.graph._codegen
    for node in [n for n in order if n.op != "output"] + [n for n in order if n.op == "output"]:
        made[node] = new.node_copy(node, made.__getitem__)
    gm.graph = new
    return gm


def stable_topological_sort(gm):
    """The same in place: Nodes keep their identity and, where they may, their order."""
    order = _sorted_nodes(gm.graph)
    for before, node in itertools.pairwise(order):
        before.append(node)
    outputs = [n for n in order if n.op == "output"]
    for node in outputs:
        order[-1].append(node)
    return gm
