"""Constant folding: what depends on no argument is computed once, and kept as an attribute."""

import flambeau

from ...nn import Parameter
from .._symbolic_trace import symbolic_trace
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import map_arg

__all__ = ["FoldedGraphModule", "get_unique_attr_name_in_module", "split_const_subgraphs"]


class FoldedGraphModule(GraphModule):
    """A GraphModule that computes its constant part when it is first called, or by `run_folding`."""

    def __init__(self, root, graph, const_subgraph=None, fx_const_folded_attrs_name=None,
                 device_for_folded_attrs="cpu"):
        super().__init__(root, graph)
        self.const_subgraph_module = None if const_subgraph is None else GraphModule(root, const_subgraph)
        self.fx_const_folded_attrs_name = fx_const_folded_attrs_name
        self.device_for_folded_attrs = device_for_folded_attrs
        self.has_folding_been_run = False

    def forward(self, *args, **kwargs):
        """Replaced by the graph's code."""
        raise NotImplementedError("FoldedGraphModule.forward comes from its graph")

    def __call__(self, *args, **kwargs):
        if not self.has_folding_been_run:
            self.run_folding()
        return super().__call__(*args, **kwargs)

    def run_folding(self):
        """Computes the constant part, once."""
        if self.const_subgraph_module is None or self.has_folding_been_run:
            return
        self.has_folding_been_run = True
        for k, value in enumerate(self.const_subgraph_module()):
            kept = value.detach().to(self.device_for_folded_attrs)
            setattr(self, f"{self.fx_const_folded_attrs_name}{k}", Parameter(kept, requires_grad=value.requires_grad)
                    if kept.is_floating_point() else kept)


def get_unique_attr_name_in_module(mod_traced, name):
    """A name like this that the module has no attribute of."""
    number, found = 0, name
    while hasattr(mod_traced, found):
        number += 1
        found = f"{name}_{number}"
    return found


def split_const_subgraphs(module, skip_folding_node_fn=None, device_for_folded_attrs="cpu"):
    """A FoldedGraphModule: steps that depend on parameters, buffers and constants only are taken out and run once.

    skip_folding_node_fn(node): whether a step stays where it is.

    >>> import flambeau
    >>> from flambeau.fx.experimental.const_fold import split_const_subgraphs
    >>> class Scaled(flambeau.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.w = flambeau.nn.Parameter(flambeau.ones(2))
    ...     def forward(self, x):
    ...         return x * (self.w.exp() + 1)
    >>> folded = split_const_subgraphs(Scaled())
    >>> [node.op for node in folded.graph.nodes]
    ['placeholder', 'get_attr', 'call_function', 'output']
    """
    gm = module if isinstance(module, GraphModule) else symbolic_trace(module)
    constant = set()
    for node in gm.graph.nodes:
        if node.op in ("placeholder", "output") or (skip_folding_node_fn and skip_folding_node_fn(node)):
            continue
        used = node.all_input_nodes
        if node.op == "get_attr" or (used and not node.is_impure() and constant.issuperset(used)):
            constant.add(node)
    inner = {n for n in constant if n.op != "get_attr"}
    results = [n for n in gm.graph.nodes if n in inner and any(user not in inner for user in n.users)]
    if not results:
        return FoldedGraphModule(gm, gm.graph)
    name = get_unique_attr_name_in_module(gm, "_FX_CONST_FOLDED_ATTRS")
    folded = _constants(gm, constant, results)
    rest, made = Graph(), {}
    for node in gm.graph.nodes:
        if node in results:
            attribute = f"{name}{results.index(node)}"
            setattr(gm, attribute, Parameter(flambeau.empty(0), requires_grad=False))
            made[node] = rest.get_attr(attribute)
            made[node].meta = dict(node.meta)
        elif node not in inner and not (node.op == "get_attr" and inner.issuperset(node.users)):
            made[node] = rest.node_copy(node, made.__getitem__)
    return FoldedGraphModule(gm, rest, folded, name, device_for_folded_attrs)


def _constants(gm, constant, results):
    graph, made = Graph(), {}
    for node in gm.graph.nodes:
        if node in constant:
            made[node] = graph.node_copy(node, made.__getitem__)
    graph.output(tuple(map_arg(results, made.__getitem__)))
    return graph
