"""replace_pattern: which places match, what stands there afterwards, and that results are as they should be."""

import operator

import pytest

import flambeau
from flambeau import fx, nn
from flambeau.fx.passes.utils.matcher_utils import SubgraphMatcher
from flambeau.fx.subgraph_rewriter import replace_pattern_with_filters

F = nn.functional


def code(gm):
    return gm.code.strip()


def test_each_place_is_replaced_once():
    gm = fx.symbolic_trace(lambda x: flambeau.relu(flambeau.relu(x)) + flambeau.relu(x))
    found = fx.replace_pattern(gm, lambda a: flambeau.relu(a), lambda a: flambeau.neg(a))
    assert len(found) == 3 and "relu" not in [n.target for n in gm.graph.nodes]
    assert gm(flambeau.tensor(2.0)).item() == 0
    gm.graph.lint()


def test_overlapping_places():
    gm = fx.symbolic_trace(lambda x: flambeau.neg(flambeau.neg(flambeau.neg(x))))
    found = fx.replace_pattern(gm, lambda a: flambeau.neg(flambeau.neg(a)), lambda a: a * 1)
    assert len(found) == 1 and gm(flambeau.tensor(2.0)).item() == -2


def test_values_used_outside_are_kept():
    def f(x):
        y = flambeau.exp(x)
        return flambeau.neg(y) + y

    gm = fx.symbolic_trace(f)
    assert fx.replace_pattern(gm, lambda a: flambeau.neg(flambeau.exp(a)), lambda a: a) == []

    def both(a):
        y = flambeau.exp(a)
        return flambeau.neg(y), y

    assert len(fx.replace_pattern(gm, both, lambda a: (a, a * 2))) == 1
    assert gm(flambeau.tensor(2.0)).item() == 6


def test_arguments_match_values_and_repeat():
    gm = fx.symbolic_trace(lambda x, y: flambeau.add(x, x) + flambeau.add(x, y) + flambeau.add(x, 3))
    assert len(fx.replace_pattern(gm, lambda a: flambeau.add(a, a), lambda a: a * 2)) == 1
    assert len(fx.replace_pattern(gm, lambda a, b: flambeau.add(a, b), lambda a, b: b - a)) == 2
    assert gm(1, flambeau.tensor(5.0)).item() == 2 + 4 + 2


def test_literals():
    gm = fx.symbolic_trace(lambda x: flambeau.clamp(x, 0, 6) + flambeau.clamp(x, 0, 7))
    assert len(SubgraphMatcher(fx.symbolic_trace(lambda a: flambeau.clamp(a, 0, 6)).graph).match(gm.graph)) == 1
    found = replace_pattern_with_filters(gm, lambda a: flambeau.clamp(a, 0, 6), lambda a: a, ignore_literals=True)
    assert len(found) == 2 and gm(4) == 8


def test_filters_and_callbacks():
    gm = fx.symbolic_trace(lambda x: flambeau.relu(x) + flambeau.relu(x + 1))
    found = replace_pattern_with_filters(
        gm, lambda a: flambeau.relu(a), lambda a: flambeau.neg(a),
        match_filters=[lambda match, graph, pattern: match.placeholder_nodes[0].op == "placeholder"])
    assert len(found) == 1 and [n.name for n in found[0].replacements] == ["neg"]

    def made(match, graph, pattern):
        return fx.symbolic_trace(lambda a: a * len(match.nodes_map)).graph

    assert len(replace_pattern_with_filters(gm, lambda a: flambeau.relu(a), replacement_callback=made)) == 1
    assert gm(flambeau.tensor(1.0)).item() == -1 + (1 + 1) * 2
    with pytest.raises(AssertionError, match="either replacement= or replacement_callback="):
        replace_pattern_with_filters(gm, lambda a: a.x())


def test_modules_of_the_replacement_are_brought():
    class Old(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(2, 2)

        def forward(self, x):
            return F.relu(self.lin(x))

    class New(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(2)
            self.w = nn.Parameter(flambeau.ones(2))

        def forward(self, x):
            return self.norm(x) * self.w

    gm = fx.symbolic_trace(Old())
    assert len(fx.replace_pattern(gm, fx.symbolic_trace(Old()), fx.symbolic_trace(New()))) == 1
    assert isinstance(gm.norm, nn.LayerNorm) and not hasattr(gm, "lin") and gm(flambeau.ones(1, 2)).shape == (1, 2)


def test_arguments_by_name_and_place_are_the_same():
    class M(nn.Module):
        def forward(self, x):
            return flambeau.sum(x, dim=1) + flambeau.sum(x, 1)

    gm = fx.symbolic_trace(M())
    pattern = fx.symbolic_trace(lambda a: flambeau.sum(a, 1))
    assert len(SubgraphMatcher(pattern.graph).match(gm.graph)) == 2


def test_a_pattern_must_use_its_steps():
    with pytest.raises(AssertionError, match="used by nobody"):
        SubgraphMatcher(fx.symbolic_trace(lambda a: (flambeau.neg(a), a)[1]).graph)


def test_rewritten_programs_mean_what_the_rule_says():
    """x * 2 -> x + x on random programs changes no result."""
    from .programs import Root, random_graph, runs, same

    root, args = Root(), (flambeau.randn(4, 4), flambeau.randn(4, 4))
    for seed in range(30):
        gm = fx.GraphModule(root, random_graph(seed))
        expected = runs(gm, args)
        for function in (flambeau.mul, operator.mul):
            fx.replace_pattern(gm, fx.symbolic_trace(lambda a, f=function: f(a, 2)), lambda a: a + a)
        gm.graph.lint()
        assert isinstance(expected, type) or same(runs(gm, args), expected)


def test_matches_come_in_the_order_of_the_graph():
    gm = fx.symbolic_trace(lambda x: flambeau.relu(flambeau.relu(flambeau.relu(x))))
    found = fx.replace_pattern(gm, lambda x: flambeau.relu(flambeau.relu(x)), lambda x: x.sigmoid())
    assert len(found) == 1 and [n.name for n in gm.graph.nodes] == ["x", "sigmoid", "relu_2", "output"]
