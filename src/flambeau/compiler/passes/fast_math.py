"""Fast math: what a user has written out becomes the one operator that is it. Only with options={"fast_math": True}.

    e = exp(sub(x, amax(x, -1)));  div(e, sum(e, -1))      softmax(x, -1)
    mul(mul(x, 0.5), add(erf(mul(x, 0.7071)), 1))          gelu(x)

Results are rounded differently: by some units of the last place. The table holds functions as a user would write them;
each is captured once, and what its graph says is looked for. Numbers and sizes belong to the key of such programs.
"""

import functools
import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

from ... import _C
from ...fx import Node
from ...ops.dims import wrap_dims
from ...ops.kinds import OPS
from .._program import Program
from .._writer import Given, Writer, has_effect
from .matching import arguments, calls, only_user, put

_ANY = 0.0123456789  # in a pattern: any number, which becomes an argument
_COMMUTATIVE = (OPS["mul"], OPS["add"])


class Rule(NamedTuple):
    """`pattern`, a function of tensors, is the operator `name` of `arguments(node of x, its last size, any number)`."""

    pattern: Callable
    name: str
    arguments: Callable


def _softmax(x):
    e = (x - x.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


def _log_softmax(x):
    y = x - x.amax(-1, keepdim=True)
    return y - y.exp().sum(-1, keepdim=True).log()


def _norms():
    """Layer norms: a number for each row, and the ways to write the variance and the quotient."""
    variances = (lambda x, c: (c * c).mean(-1, keepdim=True), lambda x, c: c.square().mean(-1, keepdim=True),
                 lambda x, c: (c ** 2).mean(-1, keepdim=True), lambda x, c: x.var(-1, unbiased=False, keepdim=True))
    quotients = (lambda c, v: c / v.sqrt(), lambda c, v: c * v.rsqrt(), lambda c, v: c / v ** 0.5)
    for variance, quotient in itertools.product(variances, quotients):
        def layer_norm(x, variance=variance, quotient=quotient):
            c = x - x.mean(-1, keepdim=True)
            return quotient(c, variance(x, c) + _ANY)

        def rms_norm(x, variance=variance, quotient=quotient):
            return quotient(x, variance(x, x) + _ANY)
        yield Rule(layer_norm, "layer_norm", lambda x, size, eps: (x, [size], None, None, eps, True))
        if variance is not variances[-1]:
            yield Rule(rms_norm, "rms_norm", lambda x, size, eps: (x, [size], None, eps))


def _gelus():
    """gelu and its approximation, by where the half stands and how the argument is scaled."""
    scaled = (lambda x: x * math.sqrt(0.5), lambda x: x / math.sqrt(2))
    cubes = (lambda x: x ** 3 * 0.044715, lambda x: x * x * x * 0.044715, lambda x: x * 0.044715 * x * x)
    waves = [(lambda x, s=s: s(x).erf(), ()) for s in scaled]
    waves += [(lambda x, c=c: ((x + c(x)) * math.sqrt(2 / math.pi)).tanh(), ("tanh",)) for c in cubes]
    halves = (lambda x, y: x * 0.5 * (y + 1), lambda x, y: x * ((y + 1) * 0.5), lambda x, y: x * (y + 1) * 0.5)
    for (wave, approximate), half in itertools.product(waves, halves):
        yield Rule(lambda x, wave=wave, half=half: half(x, wave(x)), "gelu",
                   lambda x, size, any_, approximate=approximate: (x, *approximate))


RULES = (
    Rule(_softmax, "softmax", lambda x, size, any_: (x, -1, None)),
    Rule(_log_softmax, "log_softmax", lambda x, size, any_: (x, -1, None)),
    Rule(lambda x: x - x.logsumexp(-1, keepdim=True), "log_softmax", lambda x, size, any_: (x, -1, None)),
    Rule(lambda x: x.softmax(-1).log(), "log_softmax", lambda x, size, any_: (x, -1, None)),
    *_norms(), *_gelus(),
    Rule(lambda x: x * x.sigmoid(), "silu", lambda x, size, any_: (x,)),
    Rule(lambda x: x / ((-x).exp() + 1), "silu", lambda x, size, any_: (x,)),
)


def fast_math(graph):
    """The table, for every node that could be the last of a pattern; then scale and shift of layer norms."""
    for node in reversed(list(graph.nodes)):
        if node.op != "call_function" or "use" not in node.meta:
            continue
        for last, rule in patterns().get(node.target, ()):
            found = _match(last, node, {})
            if found and _nobody_else_needs(found, last) and node.meta["use"].dtype.is_floating_point:
                _replace(graph, node, rule, found)
                break
    graph.eliminate_dead_code(has_effect)
    for node in list(graph.nodes):
        if calls(node, "layer_norm") or calls(node, "rms_norm"):
            _take_affine(graph, node)
    graph.eliminate_dead_code(has_effect)


@functools.cache
def patterns():
    """{the operator that a pattern ends in: [(its last node, its Rule)]}"""
    found = {}
    for rule in RULES:
        last = _C.graph_pause(_last_node, (rule.pattern,), None)
        found.setdefault(last.target, []).append((last, rule))
    return found


def _last_node(pattern):
    """What the function's graph returns."""
    kept = []

    def keep(described, _):
        writer = Writer(Program(described))
        kept.append(next(iter(reversed(writer.graph.nodes))).args[0][-1])
        return lambda *tensors: [pattern(x)], tuple(writer.inputs.values()), tuple(writer.wanted)
    x = OPS["full"]((4, 64), 1.0)
    _C.graph_call(pattern, (x,), None, False, keep)
    return kept[0]


def _match(pattern, node, found):
    """{node of the pattern: node of the graph}, with what was found before; None: it is not there."""
    if pattern in found:
        return found if found[pattern] is node else None
    if pattern.op == "placeholder":
        return {**found, pattern: node}
    if not isinstance(node, Node) or node.op != "call_function" or node.target is not pattern.target:
        return None
    wanted, given = arguments(pattern), arguments(node)
    orders = [given]
    if pattern.target in _COMMUTATIVE:
        orders.append({**given, "self": given["other"], "other": given["self"]})
    for order in orders:
        matched = {**found, pattern: node}
        for name, value in wanted.items():
            matched = matched and _match_value(value, order[name], matched, node)
        if matched:
            return matched
    return None


def _match_value(wanted, given, found, node):
    if isinstance(wanted, Node):
        return _match(wanted, given, found) if isinstance(given, Node) else None
    wanted, given = (value.value if isinstance(value, Given) else value for value in (wanted, given))
    if wanted == _ANY and type(wanted) is float:
        return {**found, _ANY: given} if isinstance(given, (int, float)) else None
    if isinstance(wanted, float) or isinstance(given, float):
        same = isinstance(given, (int, float)) and isinstance(wanted, (int, float)) and math.isclose(
            wanted, given, rel_tol=1e-6)
        return found if same else None
    if isinstance(wanted, (list, tuple)) and isinstance(given, (list, tuple)):  # dimensions
        ndim = len(node.args[0].meta["use"].sizes)
        return found if ndim and wrap_dims(given, ndim, "") == wrap_dims(wanted, ndim, "") else None
    return found if wanted == given else None


def _nobody_else_needs(found, last):
    """Whether what lies between the arguments and the result is not read elsewhere."""
    inside = [node for pattern, node in found.items() if isinstance(pattern, Node) and pattern.op != "placeholder"]
    return all(user in inside for node in inside if node is not found[last] for user in node.users)


def _replace(graph, node, rule, found):
    x = next(value for pattern, value in found.items() if isinstance(pattern, Node) and pattern.op == "placeholder")
    if x.meta["use"].sizes != node.meta["use"].sizes or x.meta["use"].dtype is not node.meta["use"].dtype:
        return
    args = rule.arguments(x, node.meta["use"].sizes[-1] if node.meta["use"].sizes else 1, found.get(_ANY))
    node.replace_all_uses_with(put(graph, node, rule.name, args, node))


def _take_affine(graph, norm):
    """Takes in the product with a vector of the last size, and then, of a layer norm, the sum with one."""
    user = only_user(norm)
    if norm.args[2] is None and calls(user, "mul") and _vector(user, norm) is not None:
        norm = _with(graph, norm, user, 2)
        user = only_user(norm)
    if calls(norm, "layer_norm") and norm.args[3] is None and calls(user, "add") and _vector(user, norm) is not None \
            and arguments(user)["alpha"] == 1:
        _with(graph, norm, user, 3)


def _vector(user, norm):
    """The other operand, where it is a vector of the normalised size and dtype."""
    given = arguments(user)
    other = given["other"] if given["self"] is norm else given["self"]
    use = other.meta["use"] if isinstance(other, Node) and other is not norm else None
    fits = use and use.sizes == (norm.meta["use"].sizes[-1],) and use.dtype is norm.meta["use"].dtype
    return other if fits else None


def _with(graph, norm, user, position):
    args = list(norm.args)
    args[position] = _vector(user, norm)
    made = put(graph, user, norm.target.name, tuple(args), user)
    user.replace_all_uses_with(made)
    return made
