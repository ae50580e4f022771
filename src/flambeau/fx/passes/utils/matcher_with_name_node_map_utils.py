"""SubgraphMatcher for patterns that return, besides their result, a dict of named Nodes."""

from ...graph_module import GraphModule
from .matcher_utils import SubgraphMatcher

__all__ = ["SubgraphMatcherWithNameNodeMap"]


def _split(gm):
    """(the pattern without its dict, {name: Node})."""
    output = gm.graph.output_node()
    values = output.args[0]
    if not isinstance(values, (tuple, list)) or not isinstance(values[-1], dict):
        raise AssertionError("SubgraphMatcherWithNameNodeMap: the pattern must return (result, …, {name: value})")
    *results, named = values
    copied = GraphModule(gm, gm.graph)
    output.args = (tuple(results) if len(results) > 1 else results[0],)
    copied.recompile()
    return copied, dict(named)


class SubgraphMatcherWithNameNodeMap(SubgraphMatcher):
    """Matches have name_node_map: {name: the Node of the graph} for the names that the pattern returns.

    >>> import flambeau
    >>> from flambeau.fx.passes.utils.matcher_with_name_node_map_utils import SubgraphMatcherWithNameNodeMap
    >>> def pattern(x):
    ...     inner = x.exp()
    ...     return inner + 1, {"inner": inner}
    >>> trace = flambeau.fx.symbolic_trace
    >>> matcher = SubgraphMatcherWithNameNodeMap(trace(pattern))
    >>> matcher.match(trace(lambda y: y.exp() + 1).graph)[0].name_node_map
    {'inner': exp}
    """

    def __init__(self, pattern_gm, match_output=False, match_placeholder=False, remove_overlapping_matches=True,
                 ignore_literals=False):
        pattern, self.name_node_map = _split(pattern_gm)
        super().__init__(pattern.graph, match_output, match_placeholder, remove_overlapping_matches, ignore_literals)

    def match(self, graph, node_name_match=""):
        """The matches, with name_node_map."""
        found = super().match(graph, node_name_match)
        for match in found:
            match.name_node_map = {name: match.nodes_map[node] for name, node in self.name_node_map.items()
                                   if node in match.nodes_map}
        return found
