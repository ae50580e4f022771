"""The recorded graph as a picture: layers by distance from the leaves, drawn as SVG without any other library."""

import shutil
import subprocess
from pathlib import Path

from .._shown import shown
from ._svg import arrow, box, page
from ._tape import Graph, shape_text

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 150, 40, 24, 36, 20
_FILL = {"leaf": "#cfe8cf", "node": "#dbe6f6", "root": "#f6dcc8"}


def _layers(graph):
    """Nodes by their longest distance from the leaves; each layer ordered near its inputs' mean position."""
    depth = dict.fromkeys(graph.leaves, 0)
    for node in graph.nodes:
        depth[node] = 1 + max((depth[n] for n, _ in node.next_functions if n is not None), default=0)
    layers = [[] for _ in range(max(depth.values()) + 1)]
    for node, d in depth.items():
        layers[d].append(node)
    place = {node: k for k, node in enumerate(layers[0])}
    for layer in layers[1:]:
        layer.sort(key=lambda node: _mean([place[n] for n, _ in node.next_functions if n is not None]))
        place.update((node, k) for k, node in enumerate(layer))
    return layers


def _mean(values):
    return sum(values) / len(values) if values else 0.0


def _label(graph, node):
    shapes = ", ".join(shape_text(m) for m in node._outputs)
    if node in graph.leaves:
        return graph.names[node, 0], shapes, "leaf"
    name = node.op.name if node.op is not None else node.name()
    return name, shapes, "root" if node is graph.root[0] else "node"


def _title(node):
    where = "" if node.origin is None else f"{node.origin[0]}:{node.origin[1]} in {node.origin[2]}"
    return f"{node.name()}\n{where}"


def _svg(graph):
    layers = _layers(graph)
    widest = max(len(layer) for layer in layers)
    width = 2 * _MARGIN + widest * (_WIDTH + _GAP_X) - _GAP_X
    height = 2 * _MARGIN + len(layers) * (_HEIGHT + _GAP_Y) - _GAP_Y
    centre = {}
    for d, layer in enumerate(layers):
        left = width / 2 - (len(layer) * (_WIDTH + _GAP_X) - _GAP_X) / 2
        for k, node in enumerate(layer):
            centre[node] = left + k * (_WIDTH + _GAP_X) + _WIDTH / 2, _MARGIN + d * (_HEIGHT + _GAP_Y)
    parts = []
    for node in graph.nodes:
        x, y = centre[node]
        for source, _ in node.next_functions:
            if source is not None:
                sx, sy = centre[source][0], centre[source][1] + _HEIGHT
                parts.append(arrow(f"M{sx:g},{sy:g} C{sx:g},{sy + 20:g} {x:g},{y - 20:g} {x:g},{y:g}"))
    for node, (x, y) in centre.items():
        name, shapes, kind = _label(graph, node)
        parts.append(box(x - _WIDTH / 2, y, _WIDTH, _HEIGHT, _FILL[kind], name, shapes, note=_title(node),
                         centred=True))
    return page(width, height, parts)


def _dot(graph):
    number = {node: k for k, node in enumerate([*graph.leaves, *graph.nodes])}
    lines = ["digraph {", "  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\", fontsize=11];"]
    for node, k in number.items():
        name, shapes, kind = _label(graph, node)
        text = f"{name}\\n{shapes}".replace('"', "'")
        lines.append(f'  n{k} [label="{text}", fillcolor="{_FILL[kind]}"];')
    for node in graph.nodes:
        lines += [f"  n{number[s]} -> n{number[node]};" for s, _ in node.next_functions if s is not None]
    return "\n".join([*lines, "}", ""])


def draw(tensor, path, *, names=None, layout=None):
    """Writes the graph behind a tensor to a file: `.svg`, or `.dot` for Graphviz's own format.

    layout: "dot" uses Graphviz, "own" the layout of this module; by default Graphviz where it is installed.

    >>> import flambeau, tempfile, pathlib
    >>> w = flambeau.ones(2, requires_grad=True)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "graph.svg"
    >>> flambeau.debug.draw((w * 3).sum(), path, names={"w": w})
    >>> path.read_text().startswith("<svg") or "<svg" in path.read_text()
    True
    """
    if layout not in (None, "dot", "own"):
        raise ValueError(f"draw: layout must be 'dot' or 'own', got {shown(layout)}")
    graph, path = Graph(tensor, dict(names or {})), Path(path)
    if path.suffix == ".dot":
        path.write_text(_dot(graph))
    elif path.suffix != ".svg":
        raise ValueError(f"draw: expected a file name that ends in .svg or .dot, got {path.name}")
    elif layout == "dot" or (layout is None and shutil.which("dot")):
        run = subprocess.run(["dot", "-Tsvg"], input=_dot(graph), text=True, capture_output=True, check=True)
        path.write_text(run.stdout)
    else:
        path.write_text(_svg(graph))
