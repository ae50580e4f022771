"""Control flow: cond as If, while_loop as Loop, scan and map as Scan, each with the graphs of its functions inside."""

from .. import _C, control_flow
from ..fx import GraphModule
from ..utils._pytree import tree_leaves, tree_structure, tree_unflatten
from ._emitter import sizes
from ._graph import Value


def inner_graph(module, node):
    """The GraphModule that an attribute of a graph is, or None."""
    held = getattr(module, node.target)
    held = getattr(held, "body", held)
    return held if isinstance(held, GraphModule) else None


def _condition(g, pred):
    """A tensor or number of one element as ONNX wants a condition."""
    if not isinstance(pred, Value):
        return g.scalar(bool(pred), _C.bool)
    value = g.cast(pred, _C.bool)
    return value if value.shape == () else g.op("Reshape", value, [])


def _results(inner, values):
    """Values as the outputs of an inner graph: each is one that the graph makes itself, and no other output."""
    seen = set()
    for value in values:
        value = value if isinstance(value, Value) else inner.scalar(value, None)
        if value.node is None or value.node not in inner.graph.nodes or id(value) in seen:
            dtype, shape = value.dtype, value.shape
            value = inner.op("Identity", value)
            while id(value) in seen:  # two equal results are two outputs
                value = inner.op("Identity", value)
            value.dtype, value.shape = dtype, shape
        seen.add(id(value))
        inner.graph.outputs.append(value)


def _as_tree(node, values):
    """Flat results in the structure of the step's result."""
    out = node.meta["val"]
    leaves = tree_leaves(out)
    for value, held in zip(values, leaves, strict=True):
        if isinstance(held, _C.Tensor):
            value.dtype, value.shape = held.dtype, sizes(held)
    return tree_unflatten(values, tree_structure(out))


def _many(made, count):
    return made if count > 1 else [made]


def cond(run, node, pred, true_graph, false_graph, operands=()):
    """Both branches read what they need from the graph around them."""
    branches = []
    for graph in (true_graph, false_graph):
        inner = run.g.inside()
        _results(inner, run.inner(graph, inner).all(list(operands)))
        branches.append(inner.graph)
    count = len(branches[0].outputs)
    made = run.g.op("If", _condition(run.g, pred), then_branch_g=branches[0], else_branch_g=branches[1], outputs=count)
    return _as_tree(node, _many(made, count))


def while_loop(run, node, cond_graph, body_graph, carried, additional=()):
    """The condition is asked before the loop, and at the end of each round."""
    g = run.g
    carried = [x if isinstance(x, Value) else g.scalar(x, None) for x in carried]
    first = run.inner(cond_graph, g).all([*carried, *additional])[0]
    inner = g.inside()
    inner.input("round", _C.int64, ())
    inner.input("going", _C.bool, ())
    given = [inner.input("carried", x.dtype, x.shape) for x in carried]
    after = run.inner(body_graph, inner).all([*given, *additional])
    after = [inner.cast(v, x.dtype) for v, x in zip(after, carried, strict=True)]
    again = _condition(inner, run.inner(cond_graph, inner).all([*after, *additional])[0])
    _results(inner, [again, *after])
    made = g.op("Loop", None, _condition(g, first), *carried, body_g=inner.graph, outputs=len(carried))
    return _as_tree(node, _many(made, len(carried)))


def _scanned(run, graph, carry, xs, additional, dim, reverse):
    """All results of a Scan: what is carried in the end, then the stacked results of the rounds."""
    g, inner = run.g, run.g.inside()
    given = [inner.input("carried", v.dtype, v.shape) for v in carry]
    parts = [inner.input("part", v.dtype, tuple(n for d, n in enumerate(v.shape) if d != dim % v.rank)) for v in xs]
    after = run.inner(graph, inner).all([*given, *parts, *additional])
    after = [inner.cast(v, x.dtype) for v, x in zip(after, carry, strict=False)] + after[len(carry):]
    _results(inner, after)
    count, m = len(after), len(xs)
    way = int(reverse)
    made = g.op("Scan", *carry, *xs, body_g=inner.graph, num_scan_inputs=m, scan_input_axes=[dim % v.rank for v in xs],
                scan_input_directions=[way] * m, outputs=count,
                scan_output_directions=[way] * (count - len(carry)) or None)
    return _many(made, count)


def scan(run, node, graph, init, xs, *, dim=0, reverse=False, additional_inputs=()):
    """Results of later rounds stand where their x stood."""
    made = _scanned(run, graph, tree_leaves(init), tree_leaves(xs), list(additional_inputs), dim, reverse)
    return _as_tree(node, made)


def mapped(run, node, graph, xs, *args):
    """A Scan that carries nothing."""
    return _as_tree(node, _scanned(run, graph, [], tree_leaves(xs), list(args), 0, False))


TABLE = {control_flow.cond: cond, control_flow.while_loop: while_loop, control_flow.scan: scan,
         control_flow.map: mapped}
