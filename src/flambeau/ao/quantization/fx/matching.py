"""Which nodes of a graph are the patterns of a BackendConfig."""

from dataclasses import dataclass

from flambeau import nn

from ....fx import Node
from ..utils import MatchAllNode

_kind = nn.utils.parametrize.type_before_parametrizations


@dataclass
class Match:
    """Nodes that are one pattern, the first operator first, and what the backend says of it."""

    nodes: list
    config: object

    @property
    def root(self):
        """The operator that reads the pattern's inputs."""
        return self.nodes[0]

    @property
    def last(self):
        """The operator whose result is the pattern's."""
        return self.nodes[-1]


def head_of(node, modules):
    """What a node is in a pattern: a class of modules, a function, or the name of a method or attribute."""
    if node.op == "call_module":
        return _kind(modules[node.target])
    if node.op == "call_function" and node.target is getattr:
        return node.args[1]
    return node.target if node.op in ("call_function", "call_method") else None


def nodes_of(node, pattern, modules, inner=False):
    """The nodes of a nested pattern that ends at this node, the last operator first; None if it is another one."""
    head, *parts = pattern if isinstance(pattern, tuple) else (pattern,)
    if (inner and len(node.users) > 1) or head_of(node, modules) != head or (parts and len(parts) != len(node.args)):
        return None
    found = [node]
    for arg, part in zip(node.args, parts, strict=False):
        if part is MatchAllNode:
            continue
        more = nodes_of(arg, part, modules, True) if isinstance(arg, Node) else None
        if more is None:
            return None
        found += more
    return found


def _length(pattern):
    return sum(map(_length, pattern)) if isinstance(pattern, tuple) else 1


def find_matches(graph, modules, backend_config, wanted=lambda config: True):
    """{node: its Match}: each node belongs to one pattern, longer ones first, from the end of the graph on."""
    by_head = {}
    for pattern, config in backend_config._pattern_complex_format_to_config.items():
        if wanted(config):
            by_head.setdefault(pattern[0] if isinstance(pattern, tuple) else pattern, []).append((pattern, config))
    for patterns in by_head.values():
        patterns.sort(key=lambda pair: -_length(pair[0]))
    found = {}
    for node in reversed(graph.nodes):
        for pattern, config in by_head.get(head_of(node, modules), ()):
            nodes = nodes_of(node, pattern, modules)
            if nodes and not any(each in found for each in nodes):
                found |= dict.fromkeys(nodes, Match(nodes[::-1], config))
                break
    return found
