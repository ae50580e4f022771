"""`replace_pattern`: finds the places of a graph that do what a pattern does, and lets them do another thing."""

import copy
from dataclasses import dataclass
from typing import NamedTuple

from .._shown import shown
from ..nn import Module
from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule, _assign_attr, _attribute, _has_attr
from .node import Node
from .passes.utils.matcher_utils import SubgraphMatcher

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """One replaced place: the Node where the pattern ended, and {Node of the pattern: Node of the graph}."""

    anchor: Node
    nodes_map: dict


@dataclass
class ReplacedPatterns:
    """One replaced place, and the Nodes that stand there now."""

    anchor: Node
    nodes_map: dict
    replacements: list


def replace_pattern(gm, pattern, replacement):
    """Replaces every place of the GraphModule gm that does what `pattern` does by `replacement`; both are functions or
    GraphModules with the same arguments. Returns a `Match` for each; the code is generated anew.

    Arguments of the pattern match any value. Places that share Nodes are replaced once, from the end of the graph. What
    lies inside a place may be used outside only if the pattern returns it.

    >>> import flambeau
    >>> gm = flambeau.fx.symbolic_trace(lambda x: flambeau.relu(x) + 1)
    >>> matches = flambeau.fx.replace_pattern(gm, lambda a: flambeau.relu(a), lambda a: flambeau.sigmoid(a))
    >>> len(matches), gm(flambeau.tensor(0.0))
    (1, tensor(1.5000))
    """
    replaced = replace_pattern_with_filters(gm, pattern, replacement)
    return [Match(r.anchor, r.nodes_map) for r in replaced]


def replace_pattern_with_filters(gm, pattern, replacement=None, match_filters=None, ignore_literals=False,
                                 replacement_callback=None, node_name_match=""):
    """replace_pattern for those places only for which every filter(match, graph, pattern graph) is true.

    ignore_literals: values in the pattern match any. replacement_callback(match, graph, pattern graph): the graph to
    put there, instead of `replacement`. node_name_match: see SubgraphMatcher.match.
    """
    if (replacement is None) == (replacement_callback is None):
        raise AssertionError("replace_pattern_with_filters: give either replacement= or replacement_callback=")
    pattern_graph = _graph_of(pattern)
    replacement_graph = None if replacement is None else _graph_of(replacement)
    matcher = SubgraphMatcher(pattern_graph, remove_overlapping_matches=True, ignore_literals=ignore_literals)
    graph = gm.graph
    matches = [m for m in matcher.match(graph, node_name_match)
               if all(accepts(m, graph, pattern_graph) for accepts in match_filters or ())]
    changed, replaced = {}, []
    for match in matches:
        new = replacement_graph if replacement_callback is None else replacement_callback(match, graph, pattern_graph)
        replaced.append(_replace_one(graph, match, new, changed))
    _bring_attributes(gm, replacement if isinstance(replacement, Module) else None)
    gm.recompile()
    return replaced


def _graph_of(thing):
    if isinstance(thing, GraphModule):
        return thing.graph
    if isinstance(thing, Graph):
        return thing
    if not callable(thing):
        raise TypeError(f"replace_pattern: expected a function, a GraphModule or a Graph, got {shown(thing)}")
    return symbolic_trace(thing).graph


def _current(node, changed):
    while isinstance(node, Node) and node in changed:
        node = changed[node]
    return node


def _replace_one(graph, match, new, changed):
    """Puts the Nodes of `new` in the place of a match; `changed` maps results replaced before to what stands there."""
    values = [_current(value, changed) for value in match.placeholder_nodes]
    placeholders = [n for n in new.nodes if n.op == "placeholder"]
    if len(placeholders) != len(values):
        raise AssertionError(f"replace_pattern: the pattern has {len(values)} arguments and the replacement "
                             f"{len(placeholders)}; they must be the same")
    val_map = dict(zip(placeholders, values, strict=True))
    inside = {g for p, g in match.nodes_map.items() if p.op != "placeholder" and isinstance(g, Node)}
    users = {user for r in match.returning_nodes for user in r.users if user not in inside}
    first = min(users) if users else match.returning_nodes[0]
    with graph.inserting_before(first):
        result = graph.graph_copy(new, val_map)
    made = [n for p, n in val_map.items() if p not in placeholders]
    results = [result] if isinstance(result, Node) else list(result)
    if len(results) != len(match.returning_nodes):
        raise AssertionError(f"replace_pattern: the pattern returns {len(match.returning_nodes)} values and the "
                             f"replacement {len(results)}; they must be the same")
    for old, stands in zip(match.returning_nodes, results, strict=True):
        old.replace_all_uses_with(stands)
        changed[old] = stands
    for node in reversed(list(graph.nodes)):
        if node in inside and node.op not in ("placeholder", "output", "get_attr") and not node.users:
            graph.erase_node(node)
    return ReplacedPatterns(match.anchors[0], match.nodes_map, made)


def _bring_attributes(gm, replacement):
    """Attributes of the replacement that the graph reads now."""
    gm.delete_all_unused_submodules()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr") or _has_attr(gm, node.target):
            continue
        if replacement is None or not _has_attr(replacement, node.target):
            raise RuntimeError(f"replace_pattern: {node} needs {shown(node.target)}, which neither the module nor the "
                               "replacement has")
        value = _attribute(replacement, node.target)
        if isinstance(value, Module):
            gm.add_submodule(node.target, copy.deepcopy(value))
        else:
            _assign_attr(copy.deepcopy(value), gm, node.target)
    gm.graph.lint()
