"""Nodes carry the name of what they are: their type, `name()`, the tape, the notes of errors, the profiler."""

import gc
import weakref

import pytest

import flambeau
from flambeau.autograd import Function
from flambeau.autograd.graph import Node


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.power = 3
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g


class Failing(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        raise ValueError("no derivative today")


@pytest.fixture
def x():
    return flambeau.ones(2, 2, requires_grad=True)


def written(x):
    y = x * 1
    y[0].mul_(2)
    return y


@pytest.mark.parametrize("make, name", [
    (Cube.apply, "CubeBackward"), (lambda x: x * 2, "MulBackward0"), (lambda x: x @ x, "MmBackward0"),
    (written, "CopySlices"),
], ids=lambda v: v if isinstance(v, str) else "")
def test_type_and_name(x, make, name):
    node = make(x).grad_fn
    assert type(node).__name__ == type(node).__qualname__ == node.name() == name
    assert isinstance(node, Node) and issubclass(type(node), Node) and repr(node).startswith(f"<{name} object at ")
    assert type(make(x).grad_fn) is type(node)


def test_leaf_node(x):
    node, nr = (x * 2).grad_fn.next_functions[0]
    assert type(node).__name__ == "AccumulateGrad" and nr == 0 and node.variable is x


def test_next_functions_are_of_their_types(x):
    node = (Cube.apply(x) * x).grad_fn
    assert [type(n).__name__ for n, _ in node.next_functions] == ["CubeBackward", "AccumulateGrad"]


def test_functions_of_one_name_have_types_of_their_own(x):
    other = type("Cube", (Cube,), {})
    assert type(Cube.apply(x).grad_fn) is not type(other.apply(x).grad_fn)
    assert type(other.apply(x).grad_fn).__name__ == "CubeBackward"


def test_context_shows_through(x):
    node = Cube.apply(x).grad_fn
    assert node.power == 3 and node.saved_tensors[0] is x
    node.note = 5
    assert node.note == 5


def test_memory_of_a_node_is_used_again_under_another_name(x):
    kinds = {"CubeBackward": Cube.apply, "MulBackward0": lambda x: x * 2, "AddBackward0": lambda x: x + 2}
    for _ in range(20):
        for name, make in kinds.items():
            assert type(make(x).grad_fn).__name__ == name


def test_types_of_functions_are_collected(x):
    local = type("Local", (Cube,), {})
    watched = weakref.ref(type(local.apply(x).grad_fn))
    assert watched() is not None
    del local
    gc.collect()
    assert watched() is None


def test_nodes_are_not_made_by_hand(x):
    with pytest.raises(TypeError):
        type((x * 2).grad_fn)()


def test_tape_names_functions(x, capsys):
    y = Cube.apply(x)
    flambeau.debug.tape(y.sum())
    shown = capsys.readouterr().out
    assert "v0 = CubeBackward(leaf0)" in shown and "g_leaf0 += CubeBackward.backward(g_v0)" in shown


def test_error_note_names_functions(x):
    with pytest.raises(ValueError, match="no derivative today") as caught:
        Failing.apply(x).sum().backward()
    assert any("FailingBackward" in note for note in caught.value.__notes__)


def test_profiler_names_functions(x):
    with flambeau.profiler.profile() as profile:
        Cube.apply(x).sum().backward()
    assert any("CubeBackward" in event.key for event in profile.key_averages())


def test_hooks_and_queries_know_the_types(x):
    names = []
    y = Cube.apply(x)
    y.grad_fn.register_hook(lambda i, o: names.append(type(flambeau._C.running_node()).__name__))
    y.sum().backward(retain_graph=True)
    assert names == ["CubeBackward"]
    edge = flambeau.autograd.graph.get_gradient_edge(y)
    assert type(edge.node).__name__ == "CubeBackward"
    (g,) = flambeau.autograd.grad(y.sum(), edge)
    assert g.tolist() == [[1, 1], [1, 1]]
