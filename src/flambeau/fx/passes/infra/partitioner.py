"""CapabilityBasedPartitioner: the largest groups of Nodes that a backend can run as one step."""

from ..operator_support import OperatorSupportBase
from ..tools_common import CALLABLE_NODE_OPS, get_node_target
from ..utils.fuser_utils import fuse_by_partitions


class Partition:
    """A group of Nodes: {Node: its place in the graph}."""

    def __init__(self, id=None, nodes=None, node_orders=None):
        self.id = id
        nodes = list(nodes or ())
        orders = list(node_orders) if node_orders is not None else [None] * len(nodes)
        self.nodes = dict(zip(nodes, orders, strict=True))

    def __repr__(self):
        return str(self.nodes)

    def add_node(self, node, node_order=None):
        """Takes a Node in."""
        self.nodes[node] = node_order

    def remove_node(self, node):
        """Lets a Node go."""
        del self.nodes[node]

    def size(self):
        """How many Nodes it has."""
        return len(self.nodes)


class CapabilityBasedPartitioner:
    """Finds groups of supported Nodes that can run as one, and makes submodules of them.

    operator_support                 which Nodes are supported (OperatorSupportBase)
    allows_single_node_partition     groups of one Node count
    non_compute_ops                  names of functions that compute nothing: groups are not made of them alone, nor do
                                     they begin or end with them after remove_bookend_non_compute_ops
    allowed_single_node_partition_ops  names of functions that may be a group of one
    skip_horizontal_fusion           groups hold Nodes that depend on each other only

    >>> import flambeau
    >>> from flambeau.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    >>> from flambeau.fx.passes.operator_support import OperatorSupport
    >>> gm = flambeau.fx.symbolic_trace(lambda x: flambeau.relu(flambeau.exp(x)) + 1)
    >>> support = OperatorSupport({"flambeau.exp": None, "flambeau.relu": None})
    >>> fused = CapabilityBasedPartitioner(gm, support).partition_and_fuse()
    >>> [str(node) for node in fused.graph.nodes]
    ['x', 'fused_0', 'add', 'output']
    """

    def __init__(self, graph_module, operator_support, allows_single_node_partition=False, non_compute_ops=None,
                 allowed_single_node_partition_ops=None, skip_horizontal_fusion=False):
        if not isinstance(operator_support, OperatorSupportBase):
            raise TypeError("CapabilityBasedPartitioner: operator_support must be an OperatorSupportBase, got "
                            f"{type(operator_support).__name__}")
        self.graph_module, self.operator_support = graph_module, operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = set(non_compute_ops or ())
        self.allowed_single_node_partition_ops = set(allowed_single_node_partition_ops or ())
        self.skip_horizontal_fusion = skip_horizontal_fusion

    def _is_node_supported(self, node):
        return node.op in CALLABLE_NODE_OPS and self.operator_support.is_node_supported(
            dict(self.graph_module.named_modules()), node)

    def propose_partitions(self):
        """[Partition]: each Node joins a group of what it uses, or any earlier one, unless a Node outside lies between.

        Group numbers rise along the graph, and a group's depth (the number of group borders before it) decides: two
        Nodes may share a group if no path between them leaves it.
        """
        modules = dict(self.graph_module.named_modules())
        groups, group_of, before = [], {}, {}  # before: {Node: groups that must be finished before it runs}
        order = {node: k for k, node in enumerate(self.graph_module.graph.nodes)}
        for node in order:
            depends = set()
            for used in node.all_input_nodes:
                depends |= before[used]
                if used in group_of:
                    depends.add(group_of[used])
            if node.op not in CALLABLE_NODE_OPS or not self.operator_support.is_node_supported(modules, node):
                before[node] = depends
                continue
            found = self._group_for(node, depends, groups, group_of, before)
            if found is None:
                found = len(groups)
                groups.append({})
            groups[found][node] = order[node]
            group_of[node] = found
            # what lies before the Node lies before its whole group
            for member in groups[found]:
                before[member] = before.get(member, set()) | (depends - {found})
            before[node] = depends - {found}
            _spread(found, depends - {found}, before)
        partitions = [Partition(k, list(g), g.values()) for k, g in enumerate(groups)]
        return [p for p in partitions if self._counts(p, modules)]

    def _group_for(self, node, depends, groups, group_of, before):
        """The group that a Node may join: none that another path from the group leads to it outside."""
        direct = {group_of[used] for used in node.all_input_nodes if used in group_of}
        candidates = sorted(direct, reverse=True)
        if not self.skip_horizontal_fusion:
            candidates += [k for k in range(len(groups) - 1, -1, -1) if k not in direct]
        for k in candidates:
            through_others = any(k in before[used] for used in node.all_input_nodes)
            needs_later = any(k in self._all_before(j, groups, before) for j in depends if j != k)
            if not through_others and not needs_later:
                return k
        return None

    def _all_before(self, group, groups, before):
        found, pending = set(), [group]
        while pending:
            for member in groups[pending.pop()]:
                for k in before[member]:
                    if k not in found:
                        found.add(k)
                        pending.append(k)
        return found

    def _counts(self, partition, modules):
        names = [get_node_target(modules, node) for node in partition.nodes if node.op in CALLABLE_NODE_OPS]
        computing = [name for name in names if name not in self.non_compute_ops and name != "_operator.getitem"]
        if self.allows_single_node_partition:
            return bool(names)
        return len(computing) > 1 or any(name in self.allowed_single_node_partition_ops for name in computing)

    def fuse_partitions(self, partitions, prefix="fused_"):
        """The module with each group as a submodule."""
        return fuse_by_partitions(self.graph_module, [p.nodes for p in partitions], prefix)

    def remove_bookend_non_compute_ops(self, partitions):
        """Takes Nodes that compute nothing from the beginning and the end of each group."""
        modules = dict(self.graph_module.named_modules())

        def idle(node):
            return get_node_target(modules, node) in self.non_compute_ops

        for partition in partitions:
            changed = True
            while changed:
                edges = [n for n in partition.nodes if idle(n) and (
                    not any(u in partition.nodes for u in n.all_input_nodes)
                    or not any(u in partition.nodes for u in n.users))]
                for node in edges:
                    partition.remove_node(node)
                changed = bool(edges)

    def partition_and_fuse(self, prefix="fused_"):
        """propose_partitions and fuse_partitions."""
        return self.fuse_partitions(self.propose_partitions(), prefix)


def _spread(group, depends, before):
    """Nodes that use a group's results now also come after what the group waits for."""
    for known in before.values() if depends else ():
        if group in known:
            known |= depends
