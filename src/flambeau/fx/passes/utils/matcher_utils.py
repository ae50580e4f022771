"""SubgraphMatcher: finds the places of a graph that do the same as a pattern, which is a graph too."""

import copy
from dataclasses import dataclass, field

from ...._shown import shown
from ...graph_module import GraphModule, _attribute
from ...node import Node

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """One place: the Nodes where the pattern ends, what each of its Nodes became, and what stands for its arguments
    (placeholder_nodes) and results (returning_nodes)."""

    anchors: list
    nodes_map: dict = field(default_factory=dict)
    placeholder_nodes: list = field(default_factory=list)
    returning_nodes: list = field(default_factory=list)
    name_node_map: dict = field(default_factory=dict)

    def __copy__(self):
        return InternalMatch(list(self.anchors), dict(self.nodes_map), list(self.placeholder_nodes),
                             list(self.returning_nodes), dict(self.name_node_map))


class SubgraphMatcher:
    """Finds a pattern's places in graphs.

    match_output               the pattern's output must be the graph's
    match_placeholder          its arguments must be the graph's
    remove_overlapping_matches of places that share Nodes only the first counts
    ignore_literals            numbers and other values of the pattern match any

    >>> import flambeau
    >>> from flambeau.fx.passes.utils.matcher_utils import SubgraphMatcher
    >>> pattern = flambeau.fx.symbolic_trace(lambda a: flambeau.relu(a) + 1).graph
    >>> graph = flambeau.fx.symbolic_trace(lambda x: (flambeau.relu(x * 3) + 1) / 2).graph
    >>> [str(match.anchors) for match in SubgraphMatcher(pattern).match(graph)]
    ['[add]']
    """

    def __init__(self, pattern, match_output=False, match_placeholder=False, remove_overlapping_matches=True,
                 ignore_literals=False):
        if len(pattern.nodes) == 0:
            raise ValueError("SubgraphMatcher: the pattern has no Nodes")
        self.pattern = pattern
        self.match_output, self.match_placeholder = match_output, match_placeholder
        self.remove_overlapping_matches, self.ignore_literals = remove_overlapping_matches, ignore_literals
        for node in pattern.nodes:
            if node.op not in ("output", "placeholder", "get_attr") and not node.users:
                raise AssertionError(f"SubgraphMatcher: {node} of the pattern is used by nobody; drop it, or return it")
        self.pattern_placeholder_nodes = [n for n in pattern.nodes if n.op == "placeholder"]
        output = pattern.output_node()
        self.pattern_returning_nodes = output.all_input_nodes
        # a result that another one is made of is found with it
        self.pattern_anchors = [output] if match_output else [
            n for n in output.all_input_nodes if len(n.users) == 1 or set(n.users) == {output}]

    def match(self, graph, node_name_match=""):
        """[InternalMatch of each place of the graph]; node_name_match: Nodes with this in both names are the same."""
        starts = [[n for n in graph.nodes if self._nodes_are_equal(anchor, n, node_name_match)]
                  for anchor in self.pattern_anchors]
        found = []
        self._extend(starts, InternalMatch(list(self.pattern_anchors)), found, node_name_match)
        found = [self._completed(match) for match in found]
        found = [match for match in found if self._is_contained(match.nodes_map)]
        # an argument that the pattern does not use stands for nothing; whole graphs may have some
        needed = [p for p in self.pattern_placeholder_nodes if p.users or not self.match_placeholder]
        found = [match for match in found if all(p in match.nodes_map for p in needed)]
        return _without_overlaps(found) if self.remove_overlapping_matches else found

    def _extend(self, starts, match, found, name):
        """All ways to find the remaining anchors."""
        if not starts:
            found.append(match)
            return
        anchor = self.pattern_anchors[len(self.pattern_anchors) - len(starts)]
        for node in starts[0]:
            trial = copy.copy(match)
            if self._match_nodes(anchor, node, trial, name):
                self._extend(starts[1:], trial, found, name)

    def _completed(self, match):
        match.anchors = [match.nodes_map[a] for a in self.pattern_anchors]
        match.placeholder_nodes = [match.nodes_map[p] for p in self.pattern_placeholder_nodes if p in match.nodes_map]
        match.returning_nodes = [match.nodes_map[r] for r in self.pattern_returning_nodes]
        return match

    def _match_attributes(self, pn, gn):
        """Whether two get_attr Nodes read the same kind of value."""
        mine = pn.graph.owning_module
        theirs = gn.graph.owning_module
        if mine is None or theirs is None:
            return pn.target == gn.target
        a, b = _attribute(mine, pn.target), _attribute(theirs, gn.target)
        if type(a) is not type(b):
            return False
        if isinstance(a, GraphModule):
            return len(SubgraphMatcher(a.graph, match_output=True).match(b.graph)) > 0
        return True

    def _nodes_are_equal(self, pn, gn, node_name_match=""):
        """Whether a Node can stand for one of the pattern."""
        if not self.match_placeholder and pn.op == "placeholder":
            return True
        if node_name_match and node_name_match in gn.name and node_name_match in pn.name:
            return True
        if pn.op != gn.op:
            return False
        if pn.op in ("placeholder", "output"):
            return True
        return self._match_attributes(pn, gn) if pn.op == "get_attr" else pn.target == gn.target

    def _is_contained(self, nodes_map):
        """Whether what lies inside is used inside only, so that it can be replaced."""
        inside = {g for p, g in nodes_map.items() if p.op != "placeholder" and isinstance(g, Node)}
        returned = {nodes_map[p] for p in self.pattern_returning_nodes}
        return all(user in inside for node in inside - returned if node.op != "get_attr" for user in node.users)

    def _match_literals(self, pn, gn, match):
        """A value of the pattern against one of the graph; an argument of the pattern takes any."""
        if isinstance(pn, Node):
            if isinstance(gn, Node) or pn.op != "placeholder":
                raise AssertionError(f"SubgraphMatcher: {shown(gn)} is no value")
            known = match.nodes_map.get(pn, gn)
            match.nodes_map[pn] = gn
            return type(known) is type(gn) and known == gn
        if isinstance(gn, Node):
            return False
        return self.ignore_literals or (type(pn) is type(gn) and pn == gn)

    def _match_nodes(self, pn, gn, match, node_name_match=""):
        """Whether Node gn and what it is made of fit Node pn of the pattern; fills match.nodes_map."""
        if pn in match.nodes_map:
            return match.nodes_map[pn] is gn
        taken = [p for p, g in match.nodes_map.items() if g is gn and p.op != "placeholder"]
        if (taken and pn.op != "placeholder") or not self._nodes_are_equal(pn, gn, node_name_match):
            return False
        before = dict(match.nodes_map)
        match.nodes_map[pn] = gn
        if pn.op == "placeholder" or self._match_arguments(pn, gn, match, node_name_match):
            return True
        match.nodes_map.clear()
        match.nodes_map.update(before)
        return False

    def _match_arguments(self, pn, gn, match, name):
        mine, theirs = (pn.args, pn.kwargs), (gn.args, gn.kwargs)
        if len(pn.args) != len(gn.args) or set(pn.kwargs) != set(gn.kwargs):
            root_p, root_g = pn.graph.owning_module, gn.graph.owning_module
            a = pn.normalized_arguments(root_p, normalize_to_only_use_kwargs=True) if root_p is not None else None
            b = gn.normalized_arguments(root_g, normalize_to_only_use_kwargs=True) if root_g is not None else None
            if a is None or b is None:
                return False
            mine, theirs = a, b
        return self._match_values(mine[0], theirs[0], match, name) and self._match_values(
            dict(sorted(mine[1].items())), dict(sorted(theirs[1].items())), match, name)

    def _match_values(self, p, g, match, name):
        if isinstance(p, (list, tuple)) and isinstance(g, (list, tuple)):
            return len(p) == len(g) and all(self._match_values(a, b, match, name) for a, b in zip(p, g, strict=True))
        if isinstance(p, dict) and isinstance(g, dict):
            return list(p) == list(g) and all(self._match_values(p[key], g[key], match, name) for key in p)
        if isinstance(p, slice) and isinstance(g, slice):
            return self._match_values((p.start, p.stop, p.step), (g.start, g.stop, g.step), match, name)
        if isinstance(p, Node) and isinstance(g, Node):
            return self._match_nodes(p, g, match, name)
        if isinstance(p, Node) and p.op != "placeholder":
            return False
        return self._match_literals(p, g, match)


def _without_overlaps(matches):
    kept, taken = [], set()
    for match in matches:
        inside = {g for p, g in match.nodes_map.items() if p.op not in ("placeholder", "output", "get_attr")}
        if not inside & taken:
            kept.append(match)
            taken |= inside
    return kept
