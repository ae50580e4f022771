"""Random programs for the laws of graphs: expressions with shared parts, methods, modules and trees."""

import operator
import random

import flambeau
from flambeau import fx, nn

UNARY = [flambeau.sin, flambeau.tanh, flambeau.relu, flambeau.neg, flambeau.sigmoid, operator.neg, operator.abs]
BINARY = [flambeau.add, flambeau.mul, flambeau.sub, flambeau.maximum, operator.add, operator.mul, operator.sub]
METHODS = [("cos", ()), ("clamp", (-1.0, 1.0)), ("add", (2,)), ("reshape", (-1, 4)), ("contiguous", ())]


class Root(nn.Module):
    """What the random graphs read and call."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.inner = nn.Sequential(nn.Tanh(), nn.Linear(4, 4, bias=False))
        self.w = nn.Parameter(flambeau.randn(4))
        self.register_buffer("b", flambeau.randn(4))


def random_graph(seed, size=12):
    """A graph of `size` steps over two arguments; unused steps stay, the output is a tree of some of them."""
    rng = random.Random(seed)
    graph = fx.Graph()
    values = [graph.placeholder("x"), graph.placeholder("y")]
    for _ in range(size):
        a, b = rng.choice(values), rng.choice(values)
        kind = rng.randrange(6)
        if kind == 0:
            node = graph.call_function(rng.choice(UNARY), (a,))
        elif kind == 1:
            node = graph.call_function(rng.choice(BINARY), (a, rng.choice([b, b, 2, 0.5])))
        elif kind == 2:
            name, rest = rng.choice(METHODS)
            node = graph.call_method(name, (a, *rest))
        elif kind == 3:
            node = graph.call_module(rng.choice(["lin", "inner.0", "inner.1", "inner"]), (a,))
        elif kind == 4:
            node = graph.get_attr(rng.choice(["w", "b", "inner.1.weight"]))
        else:
            node = graph.call_function(flambeau.stack, ([a, a],), {"dim": rng.choice([0, -1])})
            node = graph.call_function(operator.getitem, (node, (rng.choice([0, slice(None)]), ...)))
            node = graph.call_function(flambeau.sum, (node,), {"dim": 0, "keepdim": False})
            node = graph.call_function(flambeau.add, (node, graph.get_attr("w")))
        values.append(node)
    kept = rng.sample(values, 2)
    graph.output(rng.choice([(kept[0], {"k": kept[1]}), kept[0], [kept[1], (kept[0], 3, None)]]))
    return graph


def runs(gm, args):
    """The result, or the type of the error, so that programs that fail are compared too."""
    try:
        return gm(*args)
    except (RuntimeError, TypeError, IndexError) as error:
        return type(error)


def same(a, b):
    """Whether two results are equal trees."""
    if isinstance(a, flambeau.Tensor):
        return isinstance(b, flambeau.Tensor) and flambeau.equal(a, b)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return a == b
