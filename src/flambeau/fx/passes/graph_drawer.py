"""Pictures of graphs: `svg` draws one by itself, FxGraphDrawer also through pydot where that is installed."""

import importlib
from pathlib import Path

from ..._shown import shown
from ..graph import Graph
from ..node import value_text
from ._layout import Box, drawn
from .tools_common import get_node_target

__all__ = ["FxGraphDrawer", "svg"]

#: op -> colour of its boxes
_COLORS = {"placeholder": "#fff3d6", "get_attr": "#eef0f3", "call_function": "#dcebff", "call_method": "#dff3e4",
           "call_module": "#f1e3fb", "output": "#fff3d6"}


def _lines(node, submodules):
    """What a box says: the name, what it calls, and what is known of the result."""
    lines = [node.name]
    if node.op.startswith("call"):
        target = node.target if node.op == "call_module" else get_node_target(submodules, node)
        lines.append(str(target))
        if node.op == "call_module" and node.target in submodules:
            lines.append(type(submodules[node.target]).__name__)
    elif node.op == "get_attr":
        lines.append(node.target)
    value = node.meta.get("val", node.meta.get("tensor_meta"))
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        lines.append(value_text(value))
    return lines


def svg(graph, submodules=None, *, ignore_getattr=False, title=None):
    """A Graph or GraphModule as the text of a self-contained SVG picture: a box per Node, an arrow per use.

    submodules: {dotted name: Module}, for the classes of called modules. ignore_getattr leaves attributes out.

    >>> import flambeau
    >>> from flambeau.fx.passes.graph_drawer import svg
    >>> svg(flambeau.fx.symbolic_trace(lambda x: x.relu()))[:4]
    '<svg'
    """
    if not isinstance(graph, Graph):
        submodules = dict(graph.named_modules()) if submodules is None else submodules
        title = type(graph).__name__ if title is None else title
        graph = graph.graph
    nodes = [n for n in graph.nodes if not (ignore_getattr and n.op == "get_attr")]
    boxes = {n: Box(_lines(n, submodules or {}), _COLORS[n.op], n.stack_trace or str(n.format_node())) for n in nodes}
    edges = [(boxes[used], boxes[n]) for n in nodes for used in n.all_input_nodes if used in boxes]
    return drawn(list(boxes.values()), edges, title or "graph")


class FxGraphDrawer:
    """Pictures of a GraphModule and of the GraphModules inside.

    graph_module, name             what is drawn, and its title
    ignore_getattr                 attributes are left out
    ignore_parameters_and_buffers  so are parameters and buffers
    skip_node_names_in_args        of arguments only values are written, not Nodes
    parse_stack_trace              boxes say the line of the program
    dot_graph_shape                shape of pydot's boxes
    normalize_args                 arguments are written with their names

    >>> import flambeau
    >>> from flambeau.fx.passes.graph_drawer import FxGraphDrawer
    >>> drawer = FxGraphDrawer(flambeau.fx.symbolic_trace(lambda x: x + 1), "plus_one")
    >>> "plus_one" in drawer.get_svg()
    True
    """

    def __init__(self, graph_module, name, ignore_getattr=False, ignore_parameters_and_buffers=False,
                 skip_node_names_in_args=True, parse_stack_trace=False, dot_graph_shape=None, normalize_args=False):
        self._name, self._module = name, graph_module
        self.ignore_getattr = ignore_getattr
        self.ignore_parameters_and_buffers = ignore_parameters_and_buffers
        self.skip_node_names_in_args, self.parse_stack_trace = skip_node_names_in_args, parse_stack_trace
        self.normalize_args = normalize_args
        self.dot_graph_shape = dot_graph_shape or "record"

    def get_svg(self, submod_name=None):
        """The picture as text of SVG; of a submodule by its name."""
        module = self._module if submod_name is None else self._module.get_submodule(submod_name)
        return self._drawn(module, self._name if submod_name is None else f"{self._name}_{submod_name}")

    def save_svg(self, file):
        """Writes the picture into a file."""
        Path(file).write_text(self.get_svg(), encoding="utf-8")

    def _drawn(self, module, title):
        submodules = dict(module.named_modules())
        skipped = self.ignore_getattr or self.ignore_parameters_and_buffers
        nodes = [n for n in module.graph.nodes if not (skipped and n.op == "get_attr")]
        boxes = {n: Box(self._label(n, submodules, module), _COLORS[n.op], str(n.format_node())) for n in nodes}
        edges = [(boxes[used], boxes[n]) for n in nodes for used in n.all_input_nodes if used in boxes]
        return drawn(list(boxes.values()), edges, title)

    def _label(self, node, submodules, module):
        lines = _lines(node, submodules)
        args, kwargs = node.args, node.kwargs
        if self.normalize_args and node.op.startswith("call"):
            named = node.normalized_arguments(module, normalize_to_only_use_kwargs=True)
            args, kwargs = named if named is not None else (args, kwargs)
        values = [a for a in args if not (self.skip_node_names_in_args and hasattr(a, "users"))]
        named = {k: v for k, v in kwargs.items() if not (self.skip_node_names_in_args and hasattr(v, "users"))}
        if node.op.startswith("call") and (values or named):
            lines.append(", ".join([*map(shown, values), *(f"{k}={shown(v)}" for k, v in named.items())])[:60])
        if self.parse_stack_trace and node.stack_trace:
            lines.append(node.stack_trace.strip().splitlines()[-1].strip()[:60])
        return lines

    def get_dot_graph(self, submod_name=None):
        """The picture as a pydot.Dot; RuntimeError without pydot (get_svg needs nothing)."""
        return self._dot(self._module if submod_name is None else self._module.get_submodule(submod_name))

    get_main_dot_graph = get_dot_graph

    def get_submod_dot_graph(self, submod_name):
        """The pydot.Dot of a submodule that is a GraphModule."""
        return self.get_dot_graph(submod_name)

    def get_all_dot_graphs(self):
        """{name: pydot.Dot} of the module and of the GraphModules directly inside."""
        inner = {f"{self._name}_{name}": self._dot(m) for name, m in self._module.named_children()
                 if isinstance(getattr(m, "graph", None), Graph)}
        return {self._name: self._dot(self._module), **inner}

    def _dot(self, module):
        try:
            pydot = importlib.import_module("pydot")
        except ImportError:
            raise RuntimeError("FxGraphDrawer: pydot is not installed; get_svg() draws without it") from None
        submodules = dict(module.named_modules())
        picture = pydot.Dot(self._name, rankdir="TB")
        for node in module.graph.nodes:
            label = "{" + "|".join(self._label(node, submodules, module)) + "}"
            picture.add_node(pydot.Node(node.name, label=label.replace("<", "\\<").replace(">", "\\>"),
                                        shape=self.dot_graph_shape, style="filled", fillcolor=_COLORS[node.op]))
            for used in node.all_input_nodes:
                picture.add_edge(pydot.Edge(used.name, node.name))
        return picture
