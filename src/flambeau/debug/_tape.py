"""The recorded graph as a program: each recorded call, and what its derivative rules will do with the gradients."""

import inspect
import linecache
import sys
from pathlib import Path

from .. import _C
from ..autograd._notes import module_path


class Graph:
    """The nodes that lead to a tensor, oldest first, and a name for every value."""

    def __init__(self, tensor, names):
        if not isinstance(tensor, _C.Tensor):
            raise TypeError(f"debug: expected a Tensor, got {type(tensor).__name__}")
        if tensor.grad_fn is None:
            raise RuntimeError("debug: the tensor has no graph: nothing was recorded, or it is a leaf")
        self.root = tensor.grad_fn, tensor.output_nr
        self.nodes = sorted(_reachable(tensor.grad_fn), key=lambda n: n._sequence_nr())
        self.leaves = [n for n in self.nodes if n.name().endswith("AccumulateGrad")]
        self.nodes = [n for n in self.nodes if not n.name().endswith("AccumulateGrad")]
        known = {id(t): name for name, t in names.items()}
        self.names = {}
        for k, leaf in enumerate(self.leaves):
            self.names[leaf, 0] = known.get(id(leaf.variable), f"leaf{k}")
        for k, node in enumerate(self.nodes):
            outputs = len(node._outputs)
            for j in range(outputs):
                self.names[node, j] = f"v{k}" if outputs == 1 else f"v{k}_{j}"

    def inputs(self, node):
        """The names of what the node's gradients flow to; None where none does."""
        return [self.names[edge] if edge[0] is not None else None for edge in node.next_functions]


def _reachable(root):
    seen, stack = {root}, [root]
    while stack:
        for node, _ in stack.pop().next_functions:
            if node is not None and node not in seen:
                seen.add(node)
                stack.append(node)
    return seen


def shape_text(meta):
    """`[2, 3] float32` of one result."""
    return "?" if meta is None else f"{list(meta[0])} {str(meta[1]).split('.')[-1]}"


def argument_edges(node):
    """For each tensor argument of the recorded call: the positions of its edges."""
    places, at = {}, 0
    rules = node.op.rules if node.op is not None else {}
    lists = len(node.next_functions) - sum(len(names) for names in rules)
    for names in rules:
        for name in names:
            count = 1 + (lists if _is_list(node.op, name) else 0)
            places[name] = list(range(at, at + count))
            at += count
    return places


def _is_list(op, name):
    return any(part.strip().split(" ")[0].split("=")[0].startswith("Tensor") and "[]" in part
               for part in op.schema.split("(", 1)[1].split(",") if part.strip().split("=")[0].endswith(" " + name))


def _saved(node, name):
    """A saved argument that is no tensor, as text; None when it is not known."""
    if name not in node._saved_names():
        return None
    try:
        value = getattr(node, f"_saved_{name}")
    except RuntimeError:
        return "<freed>"
    if isinstance(value, _C.Tensor):
        return f"{value.item():g}" if value.numel() == 1 and not value.is_meta else f"<{list(value.shape)}>"
    return repr(value)


def call_text(graph, node):
    """`mul(v0, other=3)`: the recorded call with the names of its inputs."""
    inputs = graph.inputs(node)
    if node.op is None:
        return f"{node.name()}({', '.join(i for i in inputs if i)})"
    places, parts = argument_edges(node), []
    for name, _, has_default, default in node.op.arguments:
        edges = [inputs[k] for k in places.get(name, ()) if k < len(inputs)]
        if any(edges):
            parts.append(edges[0] if len(edges) == 1 else "[" + ", ".join(e or "…" for e in edges) + "]")
            continue
        value = _saved(node, name)
        if value is not None and not (has_default and value == repr(default)):
            parts.append(f"{name}={value}")
        elif name in places:
            parts.append("…")
    return f"{node.op.name}({', '.join(parts)})"


def _rule_lines(function):
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        return ["<no source>"]
    at = source.find("lambda")
    text = _balanced(source[at:]) if at >= 0 else source
    return [" ".join(line.split()) for line in text.strip().splitlines()]


def _balanced(text):
    """The expression at the beginning of `text`, up to the comma or bracket that ends it."""
    depth = 0
    body = text.find(":")
    for k, c in enumerate(text):
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth < 0:
                return text[:k]
        elif c == "," and depth == 0 and k > body:
            return text[:k]
    return text


def _where(node):
    if node.origin is None:
        return ""
    file, line, function = node.origin
    source = linecache.getline(file, line).strip()
    return f"  # {Path(file).name}:{line} in {function}" + (f": {source}" if source else "")


def _forward_lines(graph):
    for leaf in graph.leaves:
        yield f"{graph.names[leaf, 0]} = leaf  # {shape_text(leaf._outputs[0])}"
    before = None
    for node in graph.nodes:
        path = module_path(node.modules)
        if path != before:
            yield f"# in {path}" if path else "# outside of modules"
            before = path
        results = ", ".join(graph.names[node, j] for j in range(len(node._outputs)))
        shapes = ", ".join(shape_text(m) for m in node._outputs)
        yield f"{results} = {call_text(graph, node)}  # {shapes}{_where(node)}"


def _backward_lines(graph):
    node, position = graph.root
    yield f"g_{graph.names[node, position]} = 1  # or the gradient given to backward()"
    for node in reversed(graph.nodes):
        inputs = graph.inputs(node)
        results = ", ".join(f"g_{graph.names[node, j]}" for j in range(len(node._outputs)))
        yield f"# {node.name()}: from {results}"
        if node.op is None:
            targets = ", ".join(f"g_{i}" for i in inputs if i)
            yield f"{targets} += {node.name()}.backward({results})"
            continue
        places = argument_edges(node)
        for names, rule in node.op.rules.items():
            targets = [inputs[k] for name in names for k in places[name] if k < len(inputs) and inputs[k]]
            if not targets:
                continue
            lines = _rule_lines(rule)
            lines = [f"{', '.join('g_' + t for t in targets)} += ({lines[0]}", *(f"    {x}" for x in lines[1:])]
            lines[-1] += ")"
            yield from lines


def tape(tensor, *, names=None, file=None):
    """Prints the graph behind a tensor as Python: the recorded calls, then the derivative rules in the order they run.

    `names` maps names to leaf tensors (`dict(model.named_parameters())`); others are called leaf0, leaf1 …

    >>> import flambeau
    >>> w = flambeau.ones(2, requires_grad=True)
    >>> flambeau.debug.tape((w * 3).sum(), names={"w": w})
    forward
      w = leaf  # [2] float32
      # outside of modules
      v0 = mul(w, other=3)  # [2] float32...
      v1 = sum(v0)  # [] float32...
    backward
      g_v1 = 1  # or the gradient given to backward()
      # SumBackward0: from g_v1
      g_v0 += (lambda g, ...)
      # MulBackward0: from g_v0
      g_w += (lambda g, other: ...)
    """
    graph = Graph(tensor, dict(names or {}))
    out = file or sys.stdout
    for title, lines in (("forward", _forward_lines(graph)), ("backward", _backward_lines(graph))):
        print(title, file=out)
        for line in lines:
            print(f"  {line}", file=out)
