"""Parts of a graph as modules of their own, and whether two graphs are the same."""

from ....nn import Module
from ...graph_module import GraphModule, _attribute
from .matcher_utils import SubgraphMatcher

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]


class HolderModule(Module):
    """A Module with these attributes; dotted names make empty modules on the way."""

    def __init__(self, d):
        super().__init__()
        for name, value in d.items():
            self.put(name, value)

    def put(self, name, value):
        """Sets an attribute at a dotted name."""
        module = self
        *path, last = name.split(".")
        for part in path:
            if not hasattr(module, part):
                module.add_module(part, Module())
            module = getattr(module, part)
        if isinstance(value, Module):
            module.add_module(last, value)
        else:
            setattr(module, last, value)


def lift_subgraph_as_module(gm, subgraph, comp_name="", class_name="GraphModule"):
    """(a GraphModule of a graph whose attributes are those of gm, {dotted name in gm: dotted name in it}); with a
    comp_name the latter are those of a module that has it under this name."""
    holder, names = HolderModule({}), {}
    for node in subgraph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        holder.put(node.target, _attribute(gm, node.target))
        names[node.target] = f"{comp_name}.{node.target}" if comp_name else node.target
    return GraphModule(holder, subgraph, class_name), names


def compare_graphs(left, right):
    """Whether two graphs do the same with the same Nodes, whatever these are called.

    >>> import flambeau
    >>> from flambeau.fx.passes.utils.common import compare_graphs
    >>> trace = flambeau.fx.symbolic_trace
    >>> compare_graphs(trace(lambda x: x + 1).graph, trace(lambda y: y + 1).graph)
    True
    """
    matches = SubgraphMatcher(left, match_output=True, match_placeholder=True).match(right)
    return len(matches) > 0
