"""Algebra: calls that give what is there already, and cheaper calls that give the same bits.

    neg(neg(x))                  x
    relu(relu(x))                relu(x)
    _to_copy(_to_copy(x, float64), float32), x of float32
                                 x
    max(x, dim)[0]               amax(x, dim), where nobody asks for the places

All rules are exact. Numbers among the arguments are no part of a plan, so no rule depends on them.
"""

from operator import getitem

from ..._C import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8
from ..._C import bool as boolean
from .._writer import Given, has_effect, value_of
from .matching import arguments, calls, is_value, part, put

#: f(f(x)) is f(x), to the bit (sgn is not: the length of a complex sgn(x) is rounded)
IDEMPOTENT = ("relu", "abs", "floor", "ceil", "trunc", "sign", "clone")
#: f(f(x)) is x
INVOLUTIONS = ("neg", "logical_not", "bitwise_not")
#: dtypes that hold every value of another
HOLDS = {
    float64: (float64, float32, float16, bfloat16, int32, int16, int8, uint8, boolean),
    float32: (float32, float16, bfloat16, int16, int8, uint8, boolean),
    int64: (int64, int32, int16, int8, uint8, boolean), int32: (int32, int16, int8, uint8, boolean),
    int16: (int16, int8, uint8, boolean), float16: (float16, int8, uint8, boolean),
}


def simplify(graph):
    """One walk in order: what a rule leaves behind is seen by the rules for what follows it."""
    for node in list(graph.nodes):
        if node.op != "call_function" or "view" in node.meta:
            continue
        same = _values_only(graph, node) if node.target is getitem else _as_before(node)
        if same is not None and _serves(same, node):
            node.replace_all_uses_with(same)
    graph.eliminate_dead_code(has_effect)


def _as_before(node):
    """A node that has the value of this one already."""
    first = node.args[0] if node.args else None
    name = node.target.name
    if name == "clone" and is_value(first):
        return first
    if name in (*IDEMPOTENT, *INVOLUTIONS) and calls(first, name):
        return first if name in IDEMPOTENT else first.args[0]
    if calls(node, "where"):
        given = arguments(node)
        return given["self"] if given["self"] is given["other"] else None
    if calls(node, "_to_copy") and calls(first, "_to_copy"):
        return _there_and_back(node, first)
    return None


def _there_and_back(node, first):
    """What was converted to a dtype that holds all its values, and is converted back."""
    start, between = first.args[0], first.meta["use"].dtype
    back = node.meta["use"].dtype is start.meta["use"].dtype
    return start if back and start.meta["use"].dtype in HOLDS.get(between, ()) else None


def _values_only(graph, node):
    """amax or amin for the values of a search whose places nobody wants."""
    search = node.args[0]
    for name, extreme in (("max.dim", "amax"), ("min.dim", "amin")):
        if calls(search, name) and part(search, 0) is node and node.meta["use"].dtype in (float32, float64):
            given = arguments(search)
            if isinstance(given["dim"], Given):
                return None
            return put(graph, node, extreme, (given["self"], [given["dim"]], given["keepdim"]), node)
    return None


def _serves(same, node):
    """Whether the other value is laid out as this one, and may stand where this one is asked for."""
    if not hasattr(same, "meta") or same.meta["use"][1:5] != node.meta["use"][1:5]:
        return False
    if is_value(same):
        return True
    slot = value_of(same).meta["use"].slot
    written = any(slot in n.meta.get("writes", ()) for n in node.graph.nodes)
    return not written and all(user.op != "output" and "view" not in user.meta for user in node.users)
