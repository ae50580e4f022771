"""Layer norms between conversions, on a GPU: the norm writes halves itself, and its gradient reads them.

    _to_copy(layer_norm(x), bfloat16)                _layer_norm_to(x, …, bfloat16)
    _layer_norm_backward(_to_copy(g, float32), x)    _layer_norm_backward(g, x)

Autocast makes such programs: products of halves stand between norms of float32. Results have the same bits.
"""

from ... import _C
from .._writer import has_effect
from .matching import arguments, calls, only_user, put

_HALVES = (_C.float16, _C.bfloat16)


def norms_of_halves(graph):
    """For CUDA."""
    for node in list(graph.nodes):
        if calls(node, "_to_copy"):
            _written(graph, node)
        elif calls(node, "_layer_norm_backward"):
            _read(node)
    graph.eliminate_dead_code(has_effect)


def _converts(node):
    """What a conversion within one device converts, or None."""
    if not calls(node, "_to_copy"):
        return None
    source = node.args[0]
    same = node.meta["use"].device == source.meta["use"].device
    return source if same and node.meta["use"].device.type == "cuda" else None


def _written(graph, node):
    norm = _converts(node)
    if norm is None or not calls(norm, "layer_norm") or only_user(norm) is not node:
        return
    given, use = arguments(norm), node.meta["use"]
    if norm.meta["use"].dtype != _C.float32 or use.dtype not in _HALVES or not use.contiguous:
        return
    args = (given["input"], given["normalized_shape"], given["weight"], given["bias"], given["eps"],
            arguments(node)["dtype"])
    node.replace_all_uses_with(put(graph, norm, "_layer_norm_to", args, node))


def _read(node):
    grad = node.args[0]
    source = _converts(grad)
    if source is None or grad.meta["use"].dtype != _C.float32 or source.meta["use"].dtype not in _HALVES:
        return
    node.replace_input_with(grad, source)
