"""Products take in what follows them, and products of one input are made together.

    linear or matmul [-> add] [-> relu, gelu, silu, tanh or sigmoid]
    _linear_tail           one library call: each piece of the product is finished while it is in a cache

    linear(x, a);  linear(x, b);  linear(x, c)
    _linears(x, [a, b, c]) threads share the three as if they were one

On the CPU for float32. Both are exact: each number is computed as the separate calls compute it. On CUDA a product of
float32 or halves takes in what its library can do on the way: relu and, in float32, one row that is added; gelu with
tanh only where results may be rounded differently (fast_math).
"""

from operator import getitem
from typing import NamedTuple

from ..._C import bfloat16, float16, float32
from ...ops.kinds import OPS
from .._writer import has_effect
from .matching import arguments, calls, only_user, put, untouched


class _Tails(NamedTuple):
    """What products on a kind of device may take in: activations, tensors of the result's shape, one row; by dtype."""
    device: str
    activations: tuple
    sums: tuple
    rows: tuple
    dtypes: tuple


_ON_CPU = _Tails("cpu", ("relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid"), (float32,), (float32,), (float32,))
_ON_CUDA = _Tails("cuda", ("relu",), (), (float32,), (float32, float16, bfloat16))
_ROUGHLY_ON_CUDA = _ON_CUDA._replace(activations=("relu", "gelu_tanh"))


def products_with_tails(graph):
    """For the CPU."""
    _with_tails(graph, _ON_CPU)


def products_with_epilogues(graph):
    """For CUDA."""
    _with_tails(graph, _ON_CUDA)


def products_with_rough_epilogues(graph):
    """For CUDA where results may be rounded differently."""
    _with_tails(graph, _ROUGHLY_ON_CUDA)


def _with_tails(graph, tails):
    """Later products first: the last of two that are added takes in the sum."""
    for node in reversed(list(graph.nodes)):
        product = _product(node, tails.dtypes)
        if product and node.meta["use"].device.type == tails.device:
            _take_in(graph, node, product, tails)


def _product(node, dtypes=(float32,)):
    """(input, weight, bias, whether the weight is [in, out]) of a product of rows of such a dtype with a matrix."""
    if calls(node, "linear"):
        given = arguments(node)
        found = given["input"], given["weight"], given["bias"], False
    elif calls(node, "matmul"):
        given = arguments(node)
        found = given["self"], given["other"], None, True
    else:
        return None
    rows, matrix, bias = (n.meta["use"] if n is not None else None for n in found[:3])
    fits = rows.dtype in dtypes and len(rows.sizes) >= 2 and len(matrix.sizes) == 2 and _lies_plainly(rows)
    return found if fits and (bias is None or (len(bias.sizes) == 1 and _lies_plainly(bias))) else None


def _lies_plainly(use):
    return use._replace(offset=0).contiguous


def _take_in(graph, node, product, tails):
    last, other, activation = node, None, "none"
    user = only_user(last)
    if calls(user, "add") and arguments(user)["alpha"] == 1:
        given = arguments(user)
        other = given["other"] if given["self"] is last else given["self"]
        if not _may_be_added(other, last, tails) or (tails.sums == () and product[2] is not None):
            return
        last, user = user, only_user(user)
    if (name := _activation(user)) in tails.activations:
        activation, last = name, user
    if last is node or not last.meta["use"].contiguous or not untouched((*product[:3], other), node, last):
        return
    tail = put(graph, last, "_linear_tail", (*product[:3], other, activation, product[3]), last)
    last.replace_all_uses_with(tail)
    graph.eliminate_dead_code(has_effect)


def _activation(node):
    """The name of the activation that a node calls, with gelu's form, or that of another operator, or None."""
    name = getattr(getattr(node, "target", None), "name", None)
    return "gelu_tanh" if name == "gelu" and arguments(node).get("approximate") == "tanh" else name


def _may_be_added(other, value, tails):
    """Whether it is another tensor of the value's shape, or one row of it."""
    if not hasattr(other, "meta") or other is value or "use" not in other.meta:
        return False
    use, mine = other.meta["use"], value.meta["use"]
    row = len(use.sizes) == 1 and use.sizes == mine.sizes[-1:]
    return use.dtype is mine.dtype and ((row and use.dtype in tails.rows)
                                        or (use.sizes == mine.sizes and use.dtype in tails.sums))


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
