"""Common subexpressions: of Nodes that compute the same value, the first is kept."""

import copy

from ..... import _C
from .....ops import OPS
from ....graph_module import GraphModule
from ....node import Node
from ...infra.pass_base import PassBase, PassResult

__all__ = ["CSEPass", "get_CSE_banned_ops"]


def get_CSE_banned_ops():
    """Operators of which two calls may differ: those that draw random numbers, or give memory as it is."""
    random = {op for op in OPS.values() if getattr(op, "random", False)}
    return random | {OPS[name] for name in ("empty", "empty_like", "empty_strided", "new_empty") if name in OPS}


def _key(value):
    """A value that is equal for equal arguments; 1, 1.0 and True differ."""
    if isinstance(value, (list, tuple)):
        return type(value).__name__, tuple(map(_key, value))
    if isinstance(value, dict):
        return "dict", tuple((name, _key(item)) for name, item in sorted(value.items(), key=lambda p: str(p[0])))
    if isinstance(value, slice):
        return "slice", _key((value.start, value.stop, value.step))
    return (type(value), repr(value)) if not isinstance(value, Node) else value


class CSEPass(PassBase):
    """Of call_function Nodes with the same target and arguments only the first stays; what may write stays, and nothing
    is shared across a write. banned_ops: targets that are left alone.

    >>> import flambeau
    >>> from flambeau.fx.passes.dialect.common.cse_pass import CSEPass
    >>> gm = flambeau.fx.symbolic_trace(lambda x: flambeau.sin(x) + flambeau.sin(x))
    >>> result = CSEPass()(gm)
    >>> result.modified, [node.name for node in result.graph_module.graph.nodes]
    (True, ['x', 'sin', 'add', 'output'])
    """

    def __init__(self, banned_ops=None):
        super().__init__()
        banned = get_CSE_banned_ops() if banned_ops is None else banned_ops
        self.banned_ops = {getattr(op, "_op", op) for op in banned}  # aten.add and aten.add.Tensor are one operator

    def call(self, graph_module):
        """A GraphModule without repeated Nodes; the one that is given stays as it is."""
        graph, seen, changed = copy.deepcopy(graph_module.graph), {}, False
        for node in graph.nodes:
            writes = (node.op == "call_method" and node.is_impure()) or (
                node.op == "call_function" and node.is_impure(impure_random=False))
            if writes or node.op == "call_module":
                seen.clear()
            if node.op not in ("call_function", "get_attr") or writes or node.target in self.banned_ops or (
                    isinstance(node.target, _C.Op) and node.target.random):
                continue
            key = node.op, node.target, _key(node.args), _key(dict(node.kwargs))
            if key in seen:
                node.replace_all_uses_with(seen[key])
                graph.erase_node(node)
                changed = True
            else:
                seen[key] = node
        return PassResult(GraphModule(graph_module, graph, type(graph_module).__name__), changed)
