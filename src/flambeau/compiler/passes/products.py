"""Products take in what follows them, and products of one input are made together.

    linear or matmul [-> add] [-> relu, gelu, silu, tanh or sigmoid]
    _linear_tail           one library call: each piece of the product is finished while it is in a cache

    linear(x, a);  linear(x, b);  linear(x, c)
    _linears(x, [a, b, c]) threads share the three as if they were one

For float32. Both are exact: each number is computed as the separate calls compute it.
"""

from operator import getitem

from ..._C import float32
from ...ops.kinds import OPS
from .._writer import has_effect
from .matching import arguments, calls, only_user, put, untouched

_ACTIVATIONS = ("relu", "gelu", "silu", "tanh", "sigmoid")


def products_with_tails(graph):
    """Later products first: the last of two that are added takes in the sum."""
    for node in reversed(list(graph.nodes)):
        product = _product(node)
        if product:
            _take_in(graph, node, product)


def _product(node):
    """(input, weight, bias, whether the weight is [in, out]) of a product of float32 rows with a matrix."""
    if calls(node, "linear"):
        given = arguments(node)
        found = given["input"], given["weight"], given["bias"], False
    elif calls(node, "matmul"):
        given = arguments(node)
        found = given["self"], given["other"], None, True
    else:
        return None
    rows, matrix, bias = (n.meta["use"] if n is not None else None for n in found[:3])
    fits = rows.dtype is float32 and len(rows.sizes) >= 2 and len(matrix.sizes) == 2 and _lies_plainly(rows)
    return found if fits and (bias is None or (len(bias.sizes) == 1 and _lies_plainly(bias))) else None


def _lies_plainly(use):
    return use._replace(offset=0).contiguous


def _take_in(graph, node, product):
    last, other, activation = node, None, "none"
    user = only_user(last)
    if calls(user, "add") and arguments(user)["alpha"] == 1:
        given = arguments(user)
        other = given["other"] if given["self"] is last else given["self"]
        if not _may_be_added(other, last):
            return
        last, user = user, only_user(user)
    if any(calls(user, name) for name in _ACTIVATIONS):
        option = arguments(user).get("approximate")
        activation, last = user.target.name + ("_tanh" if option == "tanh" else ""), user
    if last is node or not last.meta["use"].contiguous or not untouched((*product[:3], other), node, last):
        return
    tail = put(graph, last, "_linear_tail", (*product[:3], other, activation, product[3]), last)
    last.replace_all_uses_with(tail)
    graph.eliminate_dead_code(has_effect)


def _may_be_added(other, value):
    """Whether it is another tensor of the value's shape, or one row of it."""
    if not hasattr(other, "meta") or other is value or "use" not in other.meta:
        return False
    sizes, whole = other.meta["use"].sizes, value.meta["use"].sizes
    return other.meta["use"].dtype is float32 and (sizes == whole or (len(sizes) == 1 and sizes == whole[-1:]))


def join_products(graph):
    """Layers whose weights are there when the first of them runs."""
    place = {node: k for k, node in enumerate(graph.nodes)}
    layers = {}
    for node in graph.nodes:
        product = _product(node) if calls(node, "linear") else None
        if product and _lies_plainly(product[1].meta["use"]):
            layers.setdefault(product[0], []).append((node, product))
    for source, found in layers.items():
        first = found[0][0]
        ready = [(node, product) for node, product in found
                 if all(place[n] < place[first] for n in product[1:3] if n is not None)
                 and untouched(product[:3], first, node)]
        if len(ready) > 1:
            _join(graph, source, first, ready)


def _join(graph, source, first, ready):
    weights, biases = [p[1] for _, p in ready], [p[2] for _, p in ready]
    with graph.inserting_before(first):
        together = graph.call_function(OPS["_linears"], (source, weights, biases))
        together.meta.update({"results": len(ready), "entry": first.meta["entry"]})
        parts = [graph.call_function(getitem, (together, k)) for k in range(len(ready))]
    for part, (node, _) in zip(parts, ready, strict=True):
        part.meta.update(node.meta)
        node.replace_all_uses_with(part)
    graph.eliminate_dead_code(has_effect)
