"""Convolutions of images take in what follows them, and hand images on with the channels last.

    convolution            [-> batch norm by running statistics] [-> add] [-> an activation]
    _convolution_tail      one library call; the normalisation goes into the weights

Only where no gradient of a convolution is computed, nothing is written to memory from outside, and the work is worth
it. Rounding differs from that of separate calls.
"""

import math
from operator import getitem

from ..._C import float32
from ...ops.kinds import OPS
from .._writer import has_effect
from .matching import arguments, calls, is_value, needs, only_user, part, put

_LEAST_WORK = 1 << 17  # multiplications
_ACTIVATIONS = ("relu", "hardtanh", "relu6", "silu", "hardswish")


def convolutions_with_tails(graph):
    """Later convolutions first: the last of two that are added takes in the sum."""
    if any(calls(node, "convolution_backward") or "writes" in node.meta for node in graph.nodes):
        return
    for node in reversed(list(graph.nodes)):
        if calls(node, "convolution") and _pays(node):
            _rewrite(graph, node)
    for node in graph.nodes:
        if calls(node, "_convolution_tail") and _is_last_to_read(node, arguments(node)["other"]):
            node.args = (*node.args[:-1], True)


def _pays(node):
    use, given = node.meta["use"], arguments(node)
    weight = given["weight"].meta["use"]
    work = use.numel * math.prod(weight.sizes[1:])
    return len(use.sizes) == 4 and use.dtype is float32 and not given["transposed"] and work >= _LEAST_WORK


def _rewrite(graph, convolution):
    last, norm, other, activation = convolution, {}, None, ("none", 0.0, 0.0)
    user = only_user(last)
    if calls(user, "native_batch_norm") and user.args[0] is last and not arguments(user)["training"] and part(user, 0):
        norm, last = arguments(user), part(user, 0)
        if any(norm[k] is not None and norm[k].meta["use"].dtype is not float32 for k in _VECTORS.values()):
            return
        user = only_user(last)
    if calls(user, "add") and _adds_images(user):
        other = user.args[1] if user.args[0] is last else user.args[0]
        last, user = user, only_user(user)
    if any(calls(user, name) for name in _ACTIVATIONS):
        activation, last = _activation(user), user
    given = arguments(convolution)
    args = (given["input"], given["weight"], given["bias"],
            *(norm.get(_VECTORS[k]) for k in ("scale", "shift", "mean", "var")), norm.get("eps", 0.0), other,
            *(given[k] for k in ("stride", "padding", "dilation", "transposed", "output_padding", "groups")),
            *activation, False)
    node = put(graph, last, "_convolution_tail", args, last)
    last.replace_all_uses_with(node)
    graph.eliminate_dead_code(has_effect)


def _activation(node):
    """A tail's name for it, and the bounds of what it lets pass."""
    name, given = node.target.name, arguments(node)
    if name == "hardtanh":
        return name, given["min_val"], given["max_val"]
    return ("hardtanh", 0.0, 6.0) if name == "relu6" else (name, 0.0, 0.0)


_FRESH = {OPS[name] for name in ("_convolution_tail", "max_pool", "max_pool_values", "relu", "add", "mul", "silu",
                                  "hardswish")}
_VECTORS = {"scale": "weight", "shift": "bias", "mean": "running_mean", "var": "running_var"}


def _adds_images(node):
    """Whether two different tensors of one shape and dtype are added, as they are."""
    given = arguments(node)
    one, two = given["self"], given["other"]
    if given["alpha"] != 1 or one is two or not hasattr(one, "meta") or not hasattr(two, "meta"):
        return False
    return one.meta["use"].sizes == two.meta["use"].sizes and one.meta["use"].dtype is two.meta["use"].dtype


def _is_last_to_read(node, other):
    """Whether nobody needs `other` after this node, and its memory is its own."""
    if not is_value(other) or (other.args[0] if other.target is getitem else other).target not in _FRESH:
        return False
    return all(user is node or (user.op == "call_function" and "view" not in user.meta and needs(node, user))
               for user in other.users)
