"""Exported programs as trees of modules: laws over a table of programs, then named cases."""

import io

import pytest

import flambeau
from flambeau import nn
from flambeau.export import Dim, FlatArgsAdapter, UnflattenedModule, export, load, save, unflatten
from flambeau.utils._pytree import tree_leaves

from ..parity.exported_programs import programs

PROGRAMS = programs(flambeau)


def exported(name, keep):
    """(the module, its program); keep: the calls of all modules keep their form."""
    make, args, shapes = PROGRAMS[name]
    flambeau.manual_seed(0)
    module = make()
    kept = [path for path, _ in module.named_modules() if path] if keep else ()
    return module, export(module, args, dynamic_shapes=shapes, preserve_module_call_signature=kept)


def copied(args):
    return flambeau.utils._pytree.tree_map(lambda x: x.clone() if isinstance(x, flambeau.Tensor) else x, args)


def same(found, expected):
    found, expected = tree_leaves(found), tree_leaves(expected)
    return len(found) == len(expected) and all(
        flambeau.allclose(a, b, equal_nan=True) if isinstance(a, flambeau.Tensor) else a == b
        for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_tree_does_what_its_program_does(name, keep):
    _, program = exported(name, keep)
    module, program_again = exported(name, keep)
    args = PROGRAMS[name][1]
    tree = unflatten(program)
    assert same(tree(*copied(args)), program_again.module()(*copied(args)))
    assert set(tree.state_dict()) == set(program.state_dict)
    assert {path for path, _ in module.named_modules()} <= {path for path, _ in tree.named_modules()}
    file = io.BytesIO()
    save(program_again, file)
    assert same(unflatten(load(io.BytesIO(file.getvalue())))(*copied(args)), tree(*copied(args))) or name == "writes"


@pytest.mark.parametrize("name", ["mlp", "conv", "encoder", "attention", "embedding"])
def test_kept_modules_take_and_give_what_they_did(name):
    """Each module of the tree, called by itself on what the module was given, gives what the module gives."""
    module, program = exported(name, True)
    tree = unflatten(program)
    calls = []
    handles = [m.register_forward_hook(lambda m, args, kwargs, result, path=path: calls.append(
        (path, args, kwargs, result)), with_kwargs=True) for path, m in module.named_modules() if path]
    module(*copied(PROGRAMS[name][1]))
    for handle in handles:
        handle.remove()
    assert calls
    for path, args, kwargs, result in calls:
        assert same(tree.get_submodule(path)(*args, **kwargs), result), path


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.other = nn.Linear(3, 3), nn.ReLU()

    def forward(self, x, *, scale):
        return self.layer(self.other(self.layer(x))) * scale


def test_a_module_that_is_called_twice_is_one():
    net, x = Twice(), flambeau.randn(4, 3)
    tree = unflatten(export(net, (x,), {"scale": x}))
    assert flambeau.equal(tree(x, scale=x), net(x, scale=x))
    assert [n.target for n in tree.graph.nodes if n.op == "call_module"] == ["layer", "other", "layer"]
    tree.layer = nn.Identity()
    assert flambeau.equal(tree(x, scale=x), x.relu() * x)


def test_calls_that_differ_are_two_modules():
    class Differs(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Sized()

        def forward(self, x):
            return self.inner(x) + self.inner(x[:2]).sum()

    class Sized(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(flambeau.ones(3))

        def forward(self, x):
            return x * self.weight if x.shape[0] > 2 else x - self.weight

    net, x = Differs(), flambeau.randn(4, 3)
    tree = unflatten(export(net, (x,)))
    assert [n.target for n in tree.graph.nodes if n.op == "call_module"] == ["inner", "inner@1"]
    assert flambeau.equal(tree(x), net(x)) and getattr(tree, "inner@1").weight is tree.inner.weight


def test_modules_are_replaced():
    net, x = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU())), flambeau.randn(5, 3)
    program = export(net, (x,), dynamic_shapes=({0: Dim("batch")},), preserve_module_call_signature=("1",))
    assert [(e.fqn, e.signature is not None) for e in program.module_call_graph] == [
        ("", True), ("0", False), ("1", True), ("1.0", False), ("1.1", False)]
    assert program.module_call_graph[2].signature.inputs[0].name == "linear"
    tree = unflatten(program)
    assert isinstance(tree, UnflattenedModule)
    weight = tree.get_submodule("1.0").weight
    assert flambeau.equal(weight, net[1][0].weight) and weight.data_ptr() != net[1][0].weight.data_ptr()

    class Doubled(nn.Module):
        def forward(self, x):
            return 2 * x

    setattr(tree, "1", Doubled())
    y = flambeau.randn(2, 3)
    assert flambeau.equal(tree(y), 2 * net[0](y))
    tree.get_submodule("0").weight.data.zero_()
    assert flambeau.equal(tree(y), 2 * net[0].bias.expand(2, 4))


def test_gradients_reach_the_weights():
    net, x = nn.Sequential(nn.Linear(3, 4), nn.ReLU()), flambeau.randn(5, 3)
    tree = unflatten(export(net, (x,)))
    tree(x).sum().backward()
    found = tree.get_submodule("0").weight.grad.clone()
    net.zero_grad()
    net(x).sum().backward()
    assert flambeau.equal(found, net[0].weight.grad)


def test_arguments_are_checked_and_adapted():
    net, x = Twice(), flambeau.randn(4, 3)
    program = export(net, (x,), {"scale": x})
    with pytest.raises(AssertionError, match=r"x\.shape\[1\] must be 3"):
        unflatten(program)(flambeau.randn(4, 2), scale=x)
    with pytest.raises(TypeError, match="flat_args_adapter"):
        unflatten(program)({"x": x, "scale": x})

    class Named(FlatArgsAdapter):
        def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
            args, _ = flambeau.utils._pytree.tree_unflatten(input_args, input_spec)
            return [args[0]["x"], args[0]["scale"]][:self.given]

        given = 2

    tree = unflatten(program, Named())
    assert flambeau.equal(tree({"scale": 2 * x, "x": x}), net(x, scale=2 * x))
    Named.given = 1
    with pytest.raises(TypeError, match="1 leaves"):
        tree({"scale": x, "x": x})
    for bad, words in ((net, "ExportedProgram"), (program, "FlatArgsAdapter")):
        with pytest.raises(TypeError, match=words):
            unflatten(bad, None if bad is net else print)


def test_a_value_from_outside_does_not_fit_a_kept_form():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            self.inner.seen = [x * 2]
            return self.inner(x)

    class Inner(nn.Module):
        def forward(self, x):
            return x + self.seen[0]

    x = flambeau.randn(3)
    assert flambeau.equal(unflatten(export(Outer(), (x,)))(x), 3 * x)
    with pytest.raises(NotImplementedError, match="none of its arguments"):
        unflatten(export(Outer(), (x,), preserve_module_call_signature=("inner",)))


class Plus(nn.Module):
    def __init__(self, function, **inside):
        super().__init__()
        self.function = function
        for name, module in inside.items():
            setattr(self, name, module)
        self.register_buffer("buf", flambeau.ones(1))

    def forward(self, x):
        return self.function(self, x)


def test_modules_that_are_called_from_several_places_are_whole():
    last = Plus(lambda self, x: x + 1)
    third = Plus(lambda self, x: x * 2, last=last)
    second = Plus(lambda self, x: self.third.last(x) + 1, third=third)
    first = Plus(lambda self, x: self.second.third.last(self.second.third(x)), second=second)
    net = Plus(lambda self, x: self.first.second.third(self.first.second(self.first(x))), first=first)
    x = flambeau.ones(1)
    assert flambeau.equal(unflatten(export(net, (x,)))(x), net(x))


def test_what_a_module_writes_in_place_others_read():
    def inner(self, x):
        self.buf.add_(1)
        return x + self.buf

    def outer(self, x):
        y = self.inner(x)
        self.inner.buf.mul_(3)
        return y + self.inner.buf

    for kept in ((), ("inner",)):
        net = Plus(outer, inner=Plus(inner))
        x = flambeau.ones(1)
        program = export(net, (x,), preserve_module_call_signature=kept)
        tree = unflatten(program)
        expected = [net(x), net(x)]
        assert [tree(x), tree(x)] == expected  # on tensors of its own
