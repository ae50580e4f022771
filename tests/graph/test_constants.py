"""Constant folding: what numbers and sizes decide is made once, is made anew for others, and is nobody's to change."""

import flambeau
from flambeau import nn
from flambeau.compiler.passes.constants import fold_constants
from tests.graph.test_passes import graph_of


def causal(x):
    """Each row, averaged over those before it by how alike they are."""
    n = x.shape[0]
    mask = flambeau.ones(n, n).tril() == 0
    place = flambeau.arange(n).float() / n
    return (x @ x.T + place).masked_fill(mask, -flambeau.inf).softmax(-1) @ x


def constants(graph):
    return [node.target.name for node in graph.nodes if "constant" in node.meta]


def kept(fn, *args):
    return [step.names for step in flambeau.compiler.report(fn, *args).steps if step.kept]


def test_calls_without_tensors_and_what_follows_them():
    with flambeau.no_grad():
        graph = graph_of(causal, flambeau.randn(4, 3))
        assert constants(graph) == []
        fold_constants(graph)
    assert constants(graph) == ["ones", "tril", "eq", "arange", "_to_copy", "div"]


def test_the_second_run_takes_them_and_other_numbers_make_others():
    def scaled(x, k):
        return x * (flambeau.arange(5) * k).cos()
    f, g, x = flambeau.compile(causal), flambeau.compile(scaled), flambeau.randn(5)
    for n in (4, 4, 7, 7, 4, 1, 0, 2):
        rows = flambeau.randn(n, 3)
        assert flambeau.equal(f(rows), causal(rows))
    assert sorted(*kept(f, flambeau.randn(2, 3))) == ["_to_copy", "arange", "div", "eq", "ones", "tril"]
    for k in (2, 2, 3, 2.5, 2, flambeau.inf, 3):
        assert flambeau.allclose(g(x, k), scaled(x, k), rtol=0, atol=0, equal_nan=True)
    assert kept(g, x, 3) == [["arange", "mul", "cos"]] and kept(g, x, 4) == []


def test_results_are_new_memory_in_every_run():
    @flambeau.compile
    def both(x):
        places = flambeau.arange(3) + 1
        return places, places * 2 + x
    for _ in range(3):
        places, more = both(flambeau.zeros(3))
        assert places.tolist() == [1, 2, 3] and more.tolist() == [2, 4, 6]
        places.zero_(), more.zero_()


def test_values_that_are_written_over_or_drawn_are_made_every_time():
    @flambeau.compile
    def counts(x):
        table = flambeau.zeros(4)
        table[1] = 5.0
        table += flambeau.ones(4)
        return (table * x).sum(), flambeau.rand(2)
    first, second = counts(flambeau.ones(4)), counts(flambeau.ones(4))
    assert first[0] == second[0] == 9 and not flambeau.equal(first[1], second[1])


def test_large_ones_are_not_kept():
    @flambeau.compile
    def shifted(x):
        return (x + (flambeau.arange(x.shape[0]) * 2).float()).sum()
    x = flambeau.zeros(1000)
    assert shifted(x) == shifted(x) == 999000 and kept(shifted, x)
    y = flambeau.zeros(2_000_000)
    assert shifted(y) == shifted(y) and not kept(shifted, y)


def test_in_training():
    flambeau.manual_seed(0)
    net, other = nn.Linear(3, 3), nn.Linear(3, 3)
    other.load_state_dict(net.state_dict())

    def step(net, x):
        loss = causal(net(x)).square().mean()
        loss.backward()
        return loss.detach()
    compiled = flambeau.compile(step)
    for _ in range(3):
        x = flambeau.randn(6, 3)
        assert flambeau.equal(compiled(net, x), step(other, x))
        assert flambeau.equal(net.weight.grad, other.weight.grad)


def test_they_go_with_their_plans():
    flambeau.compiler.reset()
    x = flambeau.zeros(50_000)
    before = flambeau.memory.stats()["allocated"]
    fn = flambeau.compile(lambda x: (x + flambeau.arange(50_000)).sum())
    fn(x), fn(x)
    assert flambeau.memory.stats()["allocated"] >= before + 50_000 * 4
    flambeau.compiler.reset()
    del fn
    assert flambeau.memory.stats()["allocated"] < before + 50_000 * 4
