"""make_fx: the operators that run, gradients among them, are a graph that gives the same for other values."""

import pytest

import flambeau
from flambeau import fx, nn
from flambeau._subclasses import FakeTensor
from flambeau.fx.experimental.proxy_tensor import decompose, get_isolated_graphmodule, make_fx
from flambeau.utils._pytree import tree_leaves

F = nn.functional
MODES = ("real", "fake")


def targets(gm):
    return [n.target for n in gm.graph.nodes if n.op == "call_function"]


@pytest.mark.parametrize("mode", MODES)
def test_operators_are_the_targets(mode):
    gm = make_fx(lambda x, w: F.linear(x, w).max(1)[0] + 1, tracing_mode=mode)(flambeau.ones(2, 3), flambeau.ones(4, 3))
    assert targets(gm)[0] is F.linear and targets(gm)[1] is flambeau.max is flambeau.ops.aten.max.dim
    assert [n.name for n in gm.graph.nodes][:2] == ["x_1", "w_1"]
    x, w = flambeau.randn(5, 3), flambeau.randn(4, 3)
    assert flambeau.equal(gm(x, w), F.linear(x, w).max(1)[0] + 1)


def network():
    flambeau.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.GroupNorm(1, 2), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3))


@pytest.mark.parametrize("mode", MODES)
def test_a_training_step_is_one_graph(mode):
    net = network()

    def step(params, x, y):
        loss = F.cross_entropy(flambeau.func.functional_call(net, params, (x,)), y)
        grads = flambeau.autograd.grad(loss, list(params.values()))
        return loss, [p - 0.1 * g for p, g in zip(params.values(), grads, strict=True)]

    def inputs():
        params = {k: flambeau.randn_like(v).requires_grad_() for k, v in net.named_parameters()}
        return params, flambeau.rand(4, 1, 6, 6), flambeau.randint(0, 3, (4,))

    gm = make_fx(step, tracing_mode=mode)(*inputs())
    gm.graph.lint()
    assert not gm.graph.find_nodes(op="get_attr")
    again = inputs()
    (loss, new), (loss2, new2) = step(*again), gm(*again)
    assert flambeau.equal(loss, loss2) and all(map(flambeau.equal, new, new2))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", [
    lambda x: flambeau.func.grad(lambda a: (a ** 3).sum())(x),
    lambda x: flambeau.func.vmap(lambda a: a.sum() * a)(x),
    lambda x: x.T[0, 1:].clone().mul_(2),
    lambda x: flambeau.split(x, 1)[1] + flambeau.zeros(3),
    lambda x: {"a": [x.exp()], "b": (x, None)},
    lambda x: F.softmax(x, dim=-1).log().std(),
], ids=["grad", "vmap", "views", "split", "tree", "softmax"])
def test_programs(program, mode):
    gm = make_fx(program, tracing_mode=mode)(flambeau.ones(2, 3))
    x = flambeau.randn(2, 3)
    assert str(gm(x)) == str(program(x))


def test_fake_traces_compute_nothing_and_know_shapes():
    gm = make_fx(lambda x: x @ x, tracing_mode="fake")(flambeau.ones(3, 3))
    node = gm.graph.find_nodes(op="call_function", target=flambeau.matmul)[0]
    assert isinstance(node.meta["val"], FakeTensor) and node.meta["val"].device.type == "cpu"
    assert node.meta["tensor_meta"].shape == (3, 3)
    assert 'matmul: "f32[3, 3]"' in gm.print_readable(print_output=False)


def test_values_of_arguments_are_refused_and_constants_are_not():
    with pytest.raises(RuntimeError, match="depends on its arguments"):
        make_fx(lambda x: x * x.sum().item())(flambeau.ones(2))
    with pytest.raises(RuntimeError, match="depends on its arguments"):
        make_fx(lambda x: x * x.sum().item(), tracing_mode="fake")(flambeau.ones(2))
    gm = make_fx(lambda x: x * flambeau.tensor(3.0).item())(flambeau.ones(2))
    assert gm(flambeau.ones(1)).item() == 3


def test_parameters_of_a_module_are_its_attributes():
    net = network()
    gm = make_fx(net)(flambeau.ones(2, 1, 6, 6))
    assert {n.target for n in gm.graph.find_nodes(op="get_attr")} == {name for name, _ in net.named_parameters()}
    x = flambeau.randn(2, 1, 6, 6)
    assert flambeau.equal(gm(x), net(x))


def test_decompositions():
    def halves(x):
        return x * 0.5 + x * 0.5

    table = {flambeau.ops.aten.neg.default: lambda x: x * -1}
    gm = make_fx(lambda x: -halves(x), decomposition_table=table)(flambeau.ones(2))
    assert flambeau.neg not in targets(gm) and targets(gm).count(flambeau.mul) == 3
    with decompose(table):
        assert flambeau.neg not in targets(make_fx(lambda x: -x)(flambeau.ones(2)))


def test_random_operators_and_writes_stay():
    def f(x):
        flambeau.rand(2)
        x.add_(1)
        x * 2
        return x

    gm = make_fx(f)(flambeau.ones(2))
    assert [n.name for n in gm.graph.nodes] == ["x_1", "rand", "add_", "output"]
    x = flambeau.zeros(2)
    assert gm(x) is x and x.tolist() == [1, 1]


def test_isolated_graphs_and_stack_traces():
    gm = get_isolated_graphmodule(lambda a, *, b: a * b, (flambeau.ones(1),), {"b": flambeau.ones(1)})
    assert gm(flambeau.tensor([2.0]), flambeau.tensor([3.0])).item() == 6
    gm = make_fx(lambda x: x.exp(), record_stack_traces=True)(flambeau.ones(1))
    assert "test_make_fx.py" in gm.graph.find_nodes(op="call_function", target=flambeau.exp)[0].stack_trace


def test_what_is_not_available_says_so():
    with pytest.raises(NotImplementedError):
        make_fx(lambda x: x, pre_dispatch=True)
    with pytest.raises(AssertionError, match="tracing_mode must be"):
        make_fx(lambda x: x, tracing_mode="other")


def test_trees_of_arguments():
    gm = make_fx(lambda d: d["a"] + d["b"][0])({"a": flambeau.ones(1), "b": [flambeau.ones(1)]})
    tree = {"a": flambeau.tensor([2.0]), "b": [flambeau.tensor([3.0])]}
    assert gm(tree).item() == 5 and fx.Interpreter(gm).run(tree).item() == 5


@pytest.mark.parametrize("mode", ["real", "symbolic"])
@pytest.mark.parametrize("name", ["silu_", "pow_", "leaky_relu_", "hardswish_"])
def test_what_a_gradient_needs_of_a_value_that_is_overwritten(name, mode):
    """The copy of it is a step of the graph: it was a constant, or had no memory."""
    def slope(x):
        y = x * 2
        z = y.pow_(3) if name == "pow_" else getattr(nn.functional, name.rstrip("_"))(y, inplace=True)
        return flambeau.autograd.grad(z.sum(), x)[0]

    gm = make_fx(slope, tracing_mode=mode)(flambeau.rand(3, 2, requires_grad=True))
    x = flambeau.randn(3, 2, requires_grad=True)
    assert flambeau.equal(gm(x), slope(x))


def _writes_a_constant(x):
    made = flambeau.tensor([3.0, 1.0])
    made.add_(1)
    made[0] = made[0] * x[0]
    return x + made


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_a_constant_that_the_program_makes_and_writes_begins_anew(mode):
    def branches(x):
        return flambeau.cond(x.sum() > 0, _writes_a_constant, lambda x: x + 1, (x,))

    x = flambeau.tensor([2.0, 5.0])
    for f in (_writes_a_constant, branches):
        gm = make_fx(f, tracing_mode=mode)(flambeau.ones(2))
        assert [gm(x).tolist() for _ in range(2)] == [[10, 7]] * 2, f


def test_a_tensor_from_outside_that_the_program_writes_is_written():
    count = flambeau.zeros(1)
    gm = make_fx(lambda x: x + count.add_(1))(flambeau.zeros(1))
    assert [gm(flambeau.zeros(1)).item() for _ in range(2)] == [2, 3] and count.item() == 3


def test_a_constant_that_the_program_only_reads_is_not_copied():
    gm = make_fx(lambda x: x + flambeau.tensor(3.0))(flambeau.zeros(1))
    assert not gm.graph.find_nodes(op="call_function", target=flambeau.clone)


@pytest.mark.parametrize("mode", MODES)
def test_forms_of_an_operator_have_their_arguments_by_its_names(mode):
    """`x.var(-1, unbiased=False)` runs as a form with other arguments at other places."""
    x = flambeau.randn(3, 4)
    for f in (lambda x: x.var(-1, unbiased=False), lambda x: flambeau.std_mean(x, True),
              lambda x: x.std(0, correction=2), lambda x: flambeau.var_mean(x, dim=(0, 1), keepdim=True),
              lambda x: flambeau.native_group_norm(x.view(1, 3, 4), None, None, 1, 3, 4, 1, 1e-5)):
        for a, b in zip(tree_leaves(make_fx(f, tracing_mode=mode)(x)(x)), tree_leaves(f(x)), strict=True):
            assert flambeau.allclose(a, b)
