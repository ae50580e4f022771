"""Backends of one's own: they are given the program as a graph, and what they return runs in its place."""

import pytest

import flambeau
from flambeau import fx, nn
from flambeau._graph import NAMED
from flambeau.as_torch.tree import _dynamo
from flambeau.as_torch.tree._dynamo import exc
from flambeau.as_torch.tree._dynamo import testing as _testing
from flambeau.ops.kinds import OPS

from ..core import seams
from ..ops import battery


class Kept:
    """A backend that keeps what it is given, and runs it as it is."""

    def __init__(self):
        self.graphs, self.inputs = [], []

    def __call__(self, module, inputs):
        module.graph.lint()
        self.graphs.append(module.graph)
        self.inputs.append(inputs)
        return module.forward


def test_a_training_step_is_one_graph():
    net, kept = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 2)), Kept()
    x, y = flambeau.randn(5, 3), flambeau.tensor([0, 1, 0, 1, 1])

    def step():
        net.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        return loss
    expected = [step(), *(p.grad for p in net.parameters())]
    found = [flambeau.compile(step, backend=kept)(), *(p.grad for p in net.parameters())]
    assert all(flambeau.equal(a, b) for a, b in zip(found, expected, strict=True))
    (graph,) = kept.graphs
    targets = [n.target for n in graph.nodes if n.op == "call_function"]
    assert targets.count(OPS["linear"]) == 2 and targets.count(OPS["linear_backward"]) == 2
    assert any(t is y or t.data_ptr() == y.data_ptr() for t in kept.inputs[0])


def test_a_backend_may_rewrite():
    def subtracts(module, inputs):
        for node in module.graph.nodes:
            if node.target is OPS["add"]:
                node.target = OPS["sub"]
        module.recompile()
        return module
    assert flambeau.compile(lambda x: x * 2 + 1, backend=subtracts)(flambeau.ones(2)).tolist() == [1, 1]


def test_numbers_are_constants_of_the_graph():
    kept = Kept()
    f = flambeau.compile(lambda x, k: x * k, backend=kept)
    assert [f(flambeau.ones(1), k).item() for k in (2.5, 3.5, 2.5)] == [2.5, 3.5, 2.5]
    assert len(kept.graphs) == 2


def test_each_backend_has_plans_of_its_own():
    first, second = Kept(), Kept()
    x = flambeau.ones(2)
    for backend in (first, second, first, second):
        flambeau.compile(lambda x: x.exp() + 1, backend=backend)(x)
    assert (len(first.graphs), len(second.graphs)) == (2, 2)  # one for each call of compile
    f = flambeau.compile(lambda x: x.exp() + 1, backend=first)
    f(x), f(x)
    assert len(first.graphs) == 3


def test_views_of_values_and_several_results():
    def f(x):
        a, b = x.sort()
        v = (x * 3).t()[1:]
        w = (x + 1).view(flambeau.int32) & 0
        return flambeau.cat([a, v.t()], 1), b.chunk(2)[0] + 1, *flambeau.var_mean(x, 0), w
    x, kept = flambeau.randn(4, 3), Kept()
    for a, b in zip(flambeau.compile(f, backend=kept)(x), f(x), strict=True):
        assert flambeau.equal(a, b) and a.dtype == b.dtype


@pytest.mark.parametrize("backend, kind, text", [
    (lambda module, inputs: 3, TypeError, "must return a function"),
    (lambda module, inputs: lambda *args: (), RuntimeError, "0 values"),
    (lambda module, inputs: lambda *args: (3,), RuntimeError, "is not a tensor"),
    (lambda module, inputs: 1 / 0, exc.BackendCompilerFailed, "ZeroDivisionError: division"),
])
def test_backends_that_fail(backend, kind, text):
    with pytest.raises(kind, match=text):
        flambeau.compile(lambda x: x + 1, backend=backend)(flambeau.ones(2))


@pytest.mark.parametrize("name", battery.with_samples("graphs"))
def test_the_graph_of_every_operator_computes_it(name):
    """The graph that is handed out, run step by step, gives what the operator gives."""
    def interpreted(module, inputs):
        return fx.Interpreter(module).run
    for sample in battery.samples(name, flambeau.float32):
        if name in battery.UNSPECIFIED:
            continue
        expected = seams.outcome(lambda s=sample: battery.tensors(battery.run(name, s)))
        if expected[0] == "error":
            continue
        call = flambeau.compile(lambda s: battery.run(name, s), backend=interpreted)
        flambeau.manual_seed(0)
        expected = battery.tensors(battery.run(name, battery.map_tensors(lambda t: t.clone(), sample)))
        flambeau.manual_seed(0)
        found = battery.tensors(call(battery.map_tensors(lambda t: t.clone(), sample)))
        for a, b in zip(found, expected, strict=True):
            assert seams.same(battery.to_numpy(a), battery.to_numpy(b)), sample


@pytest.fixture
def forgotten():
    yield
    for name in ("test_mine", "test_other"):
        NAMED.pop(name, None)


def test_backends_by_name(forgotten):
    compiler, seen = flambeau.compiler, []

    @compiler.register_backend
    def test_mine(gm, inputs):
        seen.append(len(inputs))
        return gm.forward
    compiler.register_backend(lambda gm, inputs: gm.forward, name="test_other", tags=("debug",))
    x = flambeau.ones(2)
    assert flambeau.compile(lambda x: x + 1, backend="test_mine")(x).tolist() == [2, 2] and seen == [1]
    assert compiler.lookup_backend("test_mine") is test_mine is compiler.lookup_backend(test_mine)
    assert "test_mine" in compiler.list_backends() and "test_other" not in compiler.list_backends()
    assert {"test_other", "eager"} <= set(compiler.list_backends(exclude_tags=()))
    for bad, error in ((lambda: compiler.register_backend(test_mine), ValueError),
                       (lambda: compiler.register_backend(3), TypeError),
                       (lambda: compiler.lookup_backend("nobody"), RuntimeError)):
        with pytest.raises(error):
            bad()


@pytest.mark.parametrize("backend", ["aot_eager", "eager", "cudagraphs", "inductor"])
def test_backends_of_other_names_give_the_same(backend):
    inside = flambeau.compile(lambda x: (x * 2, flambeau.compiler.is_compiling()), backend=backend)(flambeau.ones(1))
    assert inside[0].item() == 2 and inside[1]
    layer = flambeau.nn.Linear(2, 1)
    expected = layer(flambeau.ones(1, 2))
    layer.compile(backend=backend)
    assert flambeau.allclose(layer(flambeau.ones(1, 2)), expected)
    with flambeau.compiler.set_stance("default", force_backend=backend):
        assert flambeau.compile(lambda x: x + 1)(flambeau.ones(1)).item() == 2


def test_errors_have_the_names_that_programs_catch():
    def failing(module, inputs):
        raise ValueError("mine")

    with pytest.raises(exc.BackendCompilerFailed, match="mine") as raised:
        flambeau.compile(lambda x: x + 1, backend=failing)(flambeau.ones(1))
    assert isinstance(raised.value.inner_exception, ValueError) and isinstance(raised.value, RuntimeError)
    with pytest.raises(exc.Unsupported, match="fullgraph=True"):
        flambeau.compile(lambda x: x * 2 if x.sum() > 0 else x, fullgraph=True)(flambeau.ones(1))

    def broken(x):
        _dynamo.graph_break("here")
        return x + 1

    assert flambeau.compile(broken)(flambeau.ones(1)).item() == 2
    with pytest.raises(exc.Unsupported, match="here"):
        flambeau.compile(broken, fullgraph=True)(flambeau.ones(1))


def test_a_backend_gets_options_and_mode():
    got = []

    def backend(module, inputs, **how):
        got.append(how)
        return module.forward

    for how in ({"options": {"mine": 1}}, {"mode": "max-autotune"}, {"mode": "default"}):
        flambeau.compile(lambda x: x + 1, backend=backend, **how)(flambeau.ones(1))
    assert got == [{"options": {"mine": 1}}, {"mode": "max-autotune"}, {}]


def test_backends_that_count():
    for counter in (_testing.CompileCounter(), _testing.CompileCounterWithBackend("eager")):
        assert flambeau.compile(lambda x: x.sin() + x.cos(), backend=counter)(flambeau.zeros(2)).tolist() == [1, 1]
        assert (counter.frame_count, counter.op_count) == (1, 3)
        counter.clear()
        assert counter.frame_count == 0
    kept = _testing.EagerAndRecordGraphs()
    _dynamo.optimize_assert(kept)(lambda x: x + 1)(flambeau.ones(1))
    assert len(kept.graphs) == 1 and _dynamo.run(kept) is kept
    strided = _testing.rand_strided((2, 3), (1, 2), flambeau.int64, "cpu", 4)
    assert strided.stride() == (1, 2) and strided.dtype is flambeau.int64 and strided.untyped_storage().nbytes() == 80
    assert _testing.same([flambeau.ones(1), 2], [flambeau.ones(1), 2])


def test_dynamo_exports_a_graph_for_other_sizes():
    graph, guards = _dynamo.export(lambda x, y: {"a": x.sin() + y, "b": [x]})(flambeau.ones(2), flambeau.ones(2))
    found = graph(flambeau.zeros(3), flambeau.ones(3))
    assert found["a"].tolist() == [1, 1, 1] and found["b"][0].shape == (3,) and guards == set()
    with pytest.raises(NotImplementedError, match="aten_graph"):
        _dynamo.export(flambeau.sin, aten_graph=False)


def test_graph_break_makes_two_programs():
    seen = []

    def backend(module, inputs):
        seen.append([n.name for n in module.graph.nodes if n.op in ("call_function", "call_method")])
        return module.forward

    def f(x):
        y = x * 2
        flambeau.compiler.graph_break()
        return y + 1

    assert flambeau.compile(f, backend=backend)(flambeau.ones(2)).tolist() == [3, 3]
    assert len(seen) == 2


def test_modules_compiled_in_place_take_a_function():
    seen = []

    def backend(graph, inputs):
        seen.append([n.name for n in graph.graph.nodes if n.op == "call_function"])
        return graph

    module = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    expected = module(flambeau.ones(1, 2))
    module.compile(backend=backend)
    assert flambeau.equal(module(flambeau.ones(1, 2)), expected) and len(seen) == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_fullgraph_finds_breaks_on_every_backend(backend):
    def decides(x):
        return x + 1 if x.sum() > 0 else x - 1

    assert flambeau.compile(decides, backend=backend)(flambeau.ones(2)).tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="fullgraph=True"):
        flambeau.compile(decides, backend=backend, fullgraph=True)(flambeau.ones(2))
    with pytest.raises(RuntimeError, match="fullgraph=True"):
        flambeau.compile(lambda x: flambeau.compiler.graph_break() or x, backend=backend, fullgraph=True)(
            flambeau.ones(2))
    assert flambeau.compile(lambda x: x * 2, backend=backend, fullgraph=True)(flambeau.ones(2)).tolist() == [2, 2]


def test_dynamo_exports_at_once_and_knows_modules():
    module = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    graph, _ = _dynamo.export(module, flambeau.ones(1, 2))
    assert flambeau.equal(graph(flambeau.ones(3, 2)), module(flambeau.ones(3, 2)))
    stacks = [[kind for _, kind in n.meta["nn_module_stack"].values()][-1] for n in graph.graph.nodes
              if n.op == "call_function" and "nn_module_stack" in n.meta]
    assert {nn.Linear, nn.ReLU} <= {*stacks}
    graph, _ = _dynamo.export(lambda x, k=1: x * k, flambeau.ones(2), k=3)
    assert graph(flambeau.ones(2)).tolist() == [3, 3]
