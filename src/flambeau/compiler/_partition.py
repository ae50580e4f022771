"""The graph of forward and backward cut in two: what forward hands over to backward."""

from .. import _C
from ..fx import Graph, GraphModule, Node
from ..fx.node import map_arg
from ..ops.kinds import writes_by_name

#: kinds of operators that cost little more than reading their arguments
_CHEAP = ("elementwise", "view", "composite")


def fakes(module):
    """The values, without contents, that the inputs of a graph have."""
    return [node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder"]


def default_partition(joint_module, _joint_inputs, *, num_fwd_outputs):
    """(forward, backward): forward hands over whatever backward reads.

    joint_module: a graph whose last inputs are called `tangents_…`; its first num_fwd_outputs results are forward's.
    """
    both = _Both(joint_module, num_fwd_outputs)
    return both.cut(both.read())


def min_cut_rematerialization_partition(joint_module, _joint_inputs, _compiler="inductor", *, num_fwd_outputs):
    """(forward, backward): forward hands over as few bytes as possible, and backward computes cheap values again.

    Computed again are pointwise operators and views. Which values to keep is a minimal cut between forward's inputs
    and what backward reads, each value counted by its bytes.
    """
    both = _Both(joint_module, num_fwd_outputs)
    return both.cut(_least(both))


class _Both:
    """The graph, and which of its nodes need a gradient of a result."""

    def __init__(self, module, count):
        self.module, self.nodes = module, list(module.graph.nodes)
        self.results = list(self.nodes[-1].args[0])
        self.forward, self.backward = self.results[:count], self.results[count:]
        self.writes = {}  # copy: what fills it, at once and for good
        for node in self.nodes[:-1]:
            if _writes(node):
                self.writes.setdefault(_copied(node.args[0]), []).append(node)
        self.later = set()
        for node in self.nodes[:-1]:
            is_tangent = node.op == "placeholder" and node.target.startswith("tangents_")
            if is_tangent or any(each in self.later for each in self.inputs_of(node)):
                self.later.add(node)

    def inputs_of(self, node):
        """What a node is computed from."""
        return [*node.all_input_nodes, *(x for each in self.writes.get(node, ()) for x in each.all_input_nodes
                                         if _copied(x) is not node)]

    def inputs(self, later):
        """The inputs of the graph that are gradients, or are not."""
        return [n for n in self.nodes if n.op == "placeholder" and (n in self.later) == later]

    def read(self):
        """What backward reads of forward, in the order of the graph."""
        users = {each for node in self.later for each in node.all_input_nodes}
        users |= {x for x in self.backward if isinstance(x, Node)}
        return [n for n in self.nodes if n in users and n not in self.later and n.op != "get_attr"]

    def cut(self, kept):
        """The two modules, where forward hands over `kept`."""
        forward = self._part(self.inputs(False), [*self.forward, *kept])
        return forward, self._part([*kept, *self.inputs(True)], self.backward)

    def _part(self, inputs, results):
        """The module that computes results of inputs."""
        needed, pending = set(), [x for x in results if isinstance(x, Node)]
        while pending:
            node = pending.pop()
            if node not in needed:
                needed.add(node)
                pending += [] if node in inputs else [*node.all_input_nodes, *self.writes.get(node, ())]
        graph, copies = Graph(), {}
        for node in inputs:
            copies[node] = graph.placeholder(node.name)
            copies[node].meta = dict(node.meta)
        for node in self.nodes:
            if node in needed and node not in copies:
                copies[node] = graph.node_copy(node, copies.__getitem__)
        graph.output(map_arg(tuple(results), copies.__getitem__))
        return GraphModule(self.module, graph)


def _writes(node):
    """Whether a node writes into its first argument: a copy that the graph has made."""
    name = getattr(node.target, "name", None)
    return node.op == "call_function" and isinstance(name, str) and writes_by_name(name)


def _copied(node):
    """The copy that a node is a view of, or the result of a write into; itself for others."""
    while _writes(node) or getattr(node.target, "kind", None) == "view":
        node = node.args[0]
    return node


def _bytes(node):
    value = node.meta.get("val")
    return value.numel() * value.element_size() if isinstance(value, _C.Tensor) else None


def _is_cheap(node):
    target = node.target
    return node.op == "call_function" and isinstance(target, _C.Op) and target.kind in _CHEAP and not (
        target.random or target.is_inplace or _writes(node))


_ALL = float("inf")


def _least(both):
    """The values to keep: the smallest cut of the graph between inputs and what backward reads."""
    first, last = "inputs", "backward"
    flows = {}  # node -> {node: what may still flow}

    def edge(a, b, capacity):
        flows.setdefault(a, {})[b] = flows.get(a, {}).get(b, 0) + capacity
        flows.setdefault(b, {}).setdefault(a, 0)

    early = [n for n in both.nodes[:-1] if n not in both.later and n.op != "get_attr"]
    for node in early:
        size = _bytes(node)
        kept = node.op == "placeholder"  # kept alive by the caller in any case
        edge((node, 0), (node, 1), _ALL if size is None else 1 if kept else max(size, 1))
        if kept or not _is_cheap(node) or node in both.writes:
            edge(first, (node, 0), _ALL)
        for user in node.users:
            if user in both.later or user.op != "output":
                edge((node, 1), last if user in both.later else (user, 0), _ALL)
    for node in both.backward:
        if isinstance(node, Node) and node not in both.later and node.op != "get_attr":
            edge((node, 1), last, _ALL)
    while (path := _path(flows, first, last)) is not None:
        amount = min(flows[a][b] for a, b in path)
        if amount == _ALL:  # a value that has no size must be kept
            return both.read()
        for a, b in path:
            flows[a][b] -= amount
            flows[b][a] += amount
    reached = _reached(flows, first)
    return [n for n in early if (n, 0) in reached and (n, 1) not in reached]


def _reached(flows, first):
    """{node: the node before it} of all that something may still flow to."""
    before, pending = {first: None}, [first]
    for a in pending:
        for b, room in flows.get(a, {}).items():
            if room > 0 and b not in before:
                before[b] = a
                pending.append(b)
    return before


def _path(flows, first, last):
    """The edges of a way from first to last, or None."""
    before = _reached(flows, first)
    if last not in before:
        return None
    path, b = [], last
    while before[b] is not None:
        path.append((before[b], b))
        b = before[b]
    return path
