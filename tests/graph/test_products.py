"""Products that take in what follows them, and products of one input made together: the graphs, and eager's bits."""

import itertools

import pytest

import flambeau
from flambeau import nn
from flambeau.compiler.passes.products import join_products, products_with_tails
from flambeau.nn import functional as F
from tests.graph.test_passes import graph_of, names

ACTIVATIONS = {"none": lambda y: y, "relu": flambeau.relu, "gelu": F.gelu, "silu": F.silu, "tanh": flambeau.tanh,
               "gelu_tanh": lambda y: F.gelu(y, approximate="tanh"), "sigmoid": flambeau.sigmoid}
PRODUCTS = {"linear": F.linear, "without bias": lambda x, w, b: F.linear(x, w), "matmul": lambda x, w, b: x @ w.T}
SUMS = {"nothing": lambda y, o, row: y, "after": lambda y, o, row: y + o, "before": lambda y, o, row: o + y,
        "a row": lambda y, o, row: y + row}


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (2, 300, 7), (8, 40, 70), (37, 520, 130), (200, 300, 1600)])
def test_what_follows_gives_the_same_bits(m, k, n):
    flambeau.manual_seed(m)
    x, w, b = flambeau.randn(m, k), flambeau.randn(n, k), flambeau.randn(n)
    other, row = flambeau.randn(m, n), flambeau.randn(n)
    for product, added, activation in itertools.product(PRODUCTS.values(), SUMS.values(), ACTIVATIONS.values()):
        def f(x, w, b, product=product, added=added, activation=activation):
            return activation(added(product(x, w, b), other, row))
        assert flambeau.equal(flambeau.compile(f)(x, w, b), f(x, w, b))


@pytest.mark.parametrize(("m", "k"), [(0, 3), (1, 0), (1, 300), (3, 7), (9, 600), (70, 256)])
def test_products_made_together_give_the_same_bits(m, k):
    x = flambeau.randn(m, k)
    layers = [(flambeau.randn(n, k), flambeau.randn(n) if n % 2 else None) for n in (1, 40, 77, 300)]
    for some in (layers[1:], layers):
        def f(x, some=some):
            return [F.linear(x, w, b) for w, b in some]
        assert all(map(flambeau.equal, flambeau.compile(f)(x), f(x)))


def test_the_graphs():
    net = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

    def attention(x):
        q, k, v = (layer(x) for layer in net[:3])
        return x + net[3]((q @ k.mT).relu() @ v)

    x = flambeau.randn(2, 5, 8)
    with flambeau.no_grad():
        graph = graph_of(attention, x)
        assert names(graph) == ["linear"] * 3 + ["as_strided", "matmul", "relu", "matmul", "linear", "add"]
        products_with_tails(graph)
        join_products(graph)
        assert names(graph) == ["_linears", "getitem", "getitem", "getitem", "as_strided", "matmul", "relu", "matmul",
                                "_linear_tail"]
        compiled = flambeau.compile(attention)
        assert flambeau.equal(compiled(x), attention(x))
        steps = flambeau.compiler.report(compiled, x).steps
        assert steps[0].names == ["_linears"] and steps[0].flops == 3 * 2 * 10 * 8 * 8


def test_a_layer_of_what_another_makes_is_not_joined_with_it():
    a, b = flambeau.randn(8, 8), flambeau.randn(4, 8)

    def f(x):
        y = F.linear(x, a)
        return F.linear(x, y) + F.linear(x, b).sum()
    x = flambeau.randn(6, 8)
    assert flambeau.equal(flambeau.compile(f)(x), f(x))


def test_weights_that_change_between_are_read_when_they_were():
    def f(x, w, v):
        y = F.linear(x, w)
        first = F.linear(x, v)
        w.mul_(2)
        v.add_(1)
        return y.relu(), first + x, F.linear(x, v), F.linear(x, w)
    x = flambeau.randn(3, 4)
    args = [[x, flambeau.ones(4, 4), flambeau.arange(16.0).view(4, 4)] for _ in range(2)]
    for _ in range(2):
        assert all(map(flambeau.equal, flambeau.compile(f)(*args[0]), f(*args[1])))


def test_what_is_added_may_change_before_the_activation():
    def f(x, w, other):
        y = F.linear(x, w) + other
        other.add_(5)
        return y.relu()
    x, w, other = flambeau.randn(3, 4), flambeau.randn(4, 4), flambeau.randn(3, 4)
    assert flambeau.equal(flambeau.compile(f)(x, w, other.clone()), f(x, w, other.clone()))


def test_sums_that_lie_in_columns_stay_so():
    """What is added up of them later is added in that order."""
    flambeau.manual_seed(0)
    x, w, columns = flambeau.randn(40, 40), flambeau.randn(40, 33), flambeau.randn(33, 40).t()

    def f(x):
        return (columns + x @ w).sum(0)
    assert flambeau.equal(flambeau.compile(f)(x), f(x))
    graph = graph_of(f, x)
    products_with_tails(graph)
    assert names(graph) == ["matmul", "add", "sum"]


def test_a_value_that_is_asked_for_elsewhere_stays():
    w = flambeau.randn(4, 4)

    def f(x):
        y = F.linear(x, w)
        return y.relu(), y
    x = flambeau.randn(3, 4)
    graph = graph_of(f, x)
    products_with_tails(graph)
    assert names(graph) == ["linear", "relu"]


def test_training_with_relu():
    nets = []
    for _ in range(2):
        flambeau.manual_seed(0)
        nets.append(nn.Sequential(nn.Linear(6, 40), nn.ReLU(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 1)))

    def step(net, x):
        loss = net(x).square().mean()
        loss.backward()
        return loss.detach()
    x, compiled = flambeau.randn(50, 6), flambeau.compile(step)
    assert flambeau.equal(compiled(nets[0], x), step(nets[1], x))
    for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        assert flambeau.equal(a.grad, b.grad)


@pytest.mark.parametrize("call", [
    lambda op, x, w: op(x.double(), w, None, None, "none", False),
    lambda op, x, w: op(x, w[:, :2], None, None, "none", False),
    lambda op, x, w: op(x, w, w, None, "none", False),
    lambda op, x, w: op(x, w, None, w, "none", False),
])
def test_wrong_arguments(call):
    x, w = flambeau.randn(2, 4), flambeau.randn(3, 4)
    with pytest.raises(RuntimeError, match="_linear_tail: "):
        call(flambeau.ops.aten._linear_tail.default, x, w)
    with pytest.raises(ValueError, match="activation is none"):
        flambeau.ops.aten._linear_tail.default(x, w, None, None, "elu", False)
    with pytest.raises(RuntimeError, match="_linears: "):
        flambeau.ops.aten._linears.default(x, [w, w.T], [None, None])
