"""Forward and backward as graphs for compilers of one's own: results as of eager calls, and what compilers get."""

import copy

import pytest

import flambeau
from flambeau import nn
from flambeau.as_torch.functorch import compile as ahead
from flambeau.as_torch.tree._functorch.aot_autograd import aot_export_module
from flambeau.compiler._aot import aot_autograd
from flambeau.func import functionalize
from flambeau.fx.experimental.proxy_tensor import make_fx
from flambeau.nn import functional as F

PARTITIONS = [ahead.default_partition, ahead.min_cut_rematerialization_partition]


def in_place(x, y):
    z = x.clone()
    z.mul_(y).clamp_(min=-1)
    w = y.clone()
    w[0] = 0
    w[:, 1:].mul_(y[:, 1:])
    return z.t().exp() * w.t(), w, z.detach(), 3


def several(x, y):
    return {"a": (x @ y.t()).softmax(-1), "b": [x.relu(), y > 0]}, x.sum()


def views(x, y):
    a, b = x.split(2)
    return a, b.transpose(0, 1) * y[:2].t(), x


def writes_an_argument(x, y):
    y.mul_(2)
    return x * y


def ways():
    return [in_place, several, views, writes_an_argument, lambda x, y: F.layer_norm(x * y, (3,)).tanh()]


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("function", ways())
def test_results_and_gradients_are_those_of_the_function(function, partition):
    found = []
    for way in (function, ahead.aot_function(function, ahead.nop, partition_fn=partition)):
        flambeau.manual_seed(0)
        x, y = flambeau.randn(4, 3, requires_grad=True), flambeau.randn(4, 3)
        results = flambeau.utils._pytree.tree_leaves(way(x, y))
        loss = sum((r * r).sum() for r in results if isinstance(r, flambeau.Tensor) and r.requires_grad)
        loss.backward()
        found.append([*results, x.grad, y])
    for a, b in zip(*found, strict=True):
        assert flambeau.equal(a, b) and a.requires_grad == b.requires_grad if isinstance(a, flambeau.Tensor) else a == b


def test_a_module_trains_as_without():
    flambeau.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.GELU(), nn.Dropout(0.5), nn.Linear(4, 1))
    other = copy.deepcopy(net)
    compiled = ahead.aot_module(other, ahead.nop, partition_fn=ahead.min_cut_rematerialization_partition)
    for module, way in ((net, net), (other, compiled)):
        optimizer = flambeau.optim.SGD(module.parameters(), lr=0.1)
        flambeau.manual_seed(1)
        for _ in range(3):
            optimizer.zero_grad()
            way(flambeau.randn(8, 3)).pow(2).sum().backward()
            optimizer.step()
    for a, b in zip(net.state_dict().values(), other.state_dict().values(), strict=True):
        assert flambeau.allclose(a, b, atol=1e-6)


def test_what_compilers_get():
    got = []

    def keep(kind):
        def compiler(module, inputs):
            got.append((kind, [n.target for n in module.graph.nodes if n.op == "placeholder"], len(inputs)))
            return ahead.make_boxed_func(module.forward)
        return compiler

    f = ahead.aot_function(lambda x, y: (x * y).exp(), keep("forward"), keep("backward"),
                           inference_compiler=keep("inference"))
    x, y = flambeau.ones(2, requires_grad=True), flambeau.ones(2)
    f(x, y).sum().backward()
    f(x, y)  # the same graphs
    assert got == [("forward", ["primals_1", "primals_2"], 2), ("backward", ["primals_2", "exp", "tangents_1"], 3)]
    f(x.detach(), y)
    assert got[-1] == ("inference", ["arg0_1", "arg1_1"], 2)
    with pytest.raises(TypeError, match="must return a function"):
        ahead.aot_function(lambda x: x * 2, lambda module, inputs: None)(y)
    with pytest.raises(NotImplementedError, match="dynamic"):
        ahead.aot_function(lambda x: x * 2, ahead.nop, dynamic=True)


def test_derivatives_of_real_functions_have_no_conjugates():
    names = set()

    def keep(module, inputs):
        names.update(n.target.name for n in module.graph.nodes if n.op == "call_function")
        return module

    x = flambeau.ones(3, requires_grad=True)
    ahead.aot_function(lambda x: x.exp() / (x * x) + x.sign(), keep)(x).sum().backward()
    assert {"mul", "div"} <= names and not any("conj" in name or name == "_zero" for name in names)


def test_a_minimal_cut_hands_over_less():
    kept = []

    def backward(module, inputs):
        kept.append(len(inputs))
        return module

    for partition in PARTITIONS:
        x = flambeau.ones(3, requires_grad=True)
        f = ahead.aot_function(lambda x: x.sin().cos().tanh(), ahead.nop, backward, partition_fn=partition)
        f(x).sum().backward()
    assert kept[1] == 2 < kept[0]  # x and the gradient


def test_a_write_through_a_view_with_gradients_is_refused():
    def hidden(x):
        y = x * 2
        y[0].mul_(3)
        return y

    with pytest.raises(RuntimeError, match="view"):
        ahead.aot_function(hidden, ahead.nop)(flambeau.ones(2, requires_grad=True))


def test_as_a_backend():
    graphs = []

    def compiler(module, inputs):
        graphs.append(module)
        return ahead.make_boxed_func(module.forward)

    f = flambeau.compile(lambda x: (x * 2).relu(), backend=aot_autograd(fw_compiler=compiler))
    x = flambeau.tensor([-1.0, 2.0], requires_grad=True)
    f(x).sum().backward()
    assert flambeau.equal(x.grad, flambeau.tensor([0.0, 2.0])) and len(graphs) == 1


def test_an_exported_module_and_its_gradients():
    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 1)

        def forward(self, x):
            return (self.linear(x).sum(),)

    _, signature = aot_export_module(Loss(), [flambeau.ones(1, 2)], trace_joint=False)
    assert tuple(signature.parameters) == ("linear.weight", "linear.bias") and len(signature.user_inputs) == 1
    _, signature = aot_export_module(Loss(), [flambeau.ones(1, 2)], trace_joint=True, output_loss_index=0)
    assert len(signature.backward_signature.gradients_to_parameters) == 2
    with pytest.raises(RuntimeError, match="output_loss_index"):
        aot_export_module(Loss(), [flambeau.ones(1, 2)], trace_joint=True)


@pytest.mark.parametrize("function", ways()[:4])
def test_functionalize_in_a_graph_makes_values_of_writes(function):
    x, y = flambeau.randn(4, 3), flambeau.randn(4, 3)
    graph = make_fx(functionalize(function))(x.clone(), y.clone())
    names = [n.target.name for n in graph.graph.nodes if n.op == "call_function" and hasattr(n.target, "name")]
    assert not [name for name in names if name.endswith("_") and name != "copy_"]
    ours, theirs = (x.clone(), y.clone()), (x.clone(), y.clone())
    results = [flambeau.utils._pytree.tree_leaves(f(*args)) for f, args in ((graph, ours), (function, theirs))]
    for a, b in zip([*results[0], *ours], [*results[1], *theirs], strict=True):
        assert flambeau.equal(a, b) if isinstance(a, flambeau.Tensor) else a == b
