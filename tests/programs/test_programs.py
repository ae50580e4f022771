"""Exported programs run by native code: models with open sizes, control flow, state, numbers, and what is refused."""

import pytest

import flambeau
from flambeau import nn
from flambeau.control_flow import map as mapped
from flambeau.control_flow import scan
from flambeau.export import Dim, export

from ..fx.test_export import MODELS
from .running import run


def leaves(result):
    return [x for x in flambeau.utils._pytree.tree_leaves(result) if isinstance(x, flambeau.Tensor)]


@pytest.mark.parametrize("name", MODELS)
def test_models_at_all_sizes(name):
    build, example, said, others = MODELS[name]
    flambeau.manual_seed(0)
    model = build().eval()
    program = export(model, (flambeau.randn(*example),), dynamic_shapes=(said,))
    for sizes in (example, *others):
        x = flambeau.randn(*sizes)
        with flambeau.no_grad():
            expected = leaves(model(x))
        found = run(program, x)
        assert all(flambeau.allclose(a, b, atol=1e-6) for a, b in zip(found, expected))


class Numbers(nn.Module):
    def forward(self, x, k: int):
        n = x.shape[0] * x.shape[1] // 3
        y = x.new_ones(n) * k
        return y, n + k, x.reshape(-1)[:n % 7] ** 2


def test_numbers():
    program = export(Numbers(), (flambeau.randn(4, 6), 5),
                     dynamic_shapes=({0: Dim("a"), 1: Dim("b")}, Dim.DYNAMIC))
    for a, b, k in ((4, 6, 5), (2, 9, 3), (5, 5, 11)):
        x = flambeau.randn(a, b)
        y, n, z = run(program, x, k)
        expected = Numbers()(x, k)
        assert flambeau.equal(y, expected[0]) and n == expected[1] and flambeau.equal(z, expected[2])


def test_what_is_detached_has_its_values():
    class Net(nn.Module):
        def forward(self, x):
            return x.detach() * x + x.data

    x = flambeau.randn(3)
    assert flambeau.equal(run(export(Net(), (x,)), x)[0], Net()(x))


class Flow(nn.Module):
    def forward(self, x, n):
        y = flambeau.cond(x.sum() > 0, lambda t: t.sin() + 1, lambda t: t.cos(), (x,))
        count, total = flambeau.while_loop(lambda i, t: i < n, lambda i, t: (i + 1, t + t.sum()), (n * 0, y))
        carry, steps = scan(lambda c, t: (c + t, c * t), x[0], x, reverse=True)
        rows = mapped(lambda t, s: t.sum() * s, x, n)
        return count, total, carry, steps, rows


@pytest.mark.parametrize("sign", [1, -1])
def test_control_flow(sign):
    example = flambeau.ones(3, 2), flambeau.tensor(2)
    program = export(Flow(), example)
    x, n = sign * flambeau.rand(3, 2), flambeau.tensor(4)
    for a, b in zip(run(program, x, n), Flow()(x, n), strict=True):
        assert flambeau.equal(a, b)


class State(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("count", flambeau.zeros(2))

    def forward(self, x):
        self.count[0] += 1
        y = nn.functional.dropout(self.norm(x), 0.5) + flambeau.randn_like(x)
        y[:, 1] = 7
        return y.relu_(), self.count + 0


def test_state_and_random_numbers():
    ours, theirs = State(), State()
    program, x = export(ours, (flambeau.ones(4, 3),)), flambeau.randn(4, 3)
    for seed in range(3):
        flambeau.manual_seed(seed)
        expected = theirs(x)
        flambeau.manual_seed(seed)
        for a, b in zip(run(program, x), expected, strict=True):
            assert flambeau.equal(a, b)
    assert flambeau.equal(ours.count, theirs.count)
    assert flambeau.equal(ours.norm.running_var, theirs.norm.running_var)


class Step(nn.Module):
    """One step of gradient descent."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x, y):
        loss = nn.functional.mse_loss(self.layer(x), y)
        weight, bias = flambeau.autograd.grad(loss, (self.layer.weight, self.layer.bias))
        return loss, self.layer.weight - 0.1 * weight, self.layer.bias - 0.1 * bias


def test_a_training_step():
    module = Step()
    x, y = flambeau.randn(5, 3), flambeau.randn(5, 2)
    for a, b in zip(run(export(module, (x, y)), x, y), module(x, y), strict=True):
        assert flambeau.allclose(a, b, atol=1e-6)


@pytest.fixture(scope="module")
def pairs():
    class Pairs(nn.Module):
        def forward(self, x, y):
            return x[:, ::2] + y

    rows, half = Dim("rows", max=10), Dim("half")
    return export(Pairs(), (flambeau.ones(3, 8), flambeau.ones(3, 4)),
                  dynamic_shapes=({0: rows, 1: 2 * half}, {0: rows, 1: half}))


@pytest.mark.parametrize("given, text", [
    (((3, 8), (3, 4), (1,)), "takes 2 inputs, got 3"),
    (((3,), (3, 4)), "'x' must have 2 dimensions, got shape \\[3\\]"),
    (((3, 9), (3, 4)), "x.shape\\[1\\] must be 2\\*"),
    (((3, 8), (4, 4)), "must be s\\d+, which is . here, got ."),
    (((11, 8), (11, 4)), "must be in VR\\[0, 10\\], got 11"),
])
def test_wrong_inputs(pairs, given, text):
    assert flambeau.equal(run(pairs, flambeau.ones(2, 4), flambeau.ones(2, 2))[0], flambeau.full((2, 2), 2.0))
    with pytest.raises(ValueError, match=text):
        run(pairs, *(flambeau.ones(*sizes) for sizes in given))


def test_a_wrong_dtype(pairs):
    with pytest.raises(ValueError, match="'y' must be float32, got float64"):
        run(pairs, flambeau.ones(3, 8), flambeau.ones(3, 4, dtype=flambeau.float64))


def test_what_needs_python_says_so():
    @flambeau.library.custom_op("programs_test::twice", mutates_args=())
    def twice(x: flambeau.Tensor) -> flambeau.Tensor:
        return 2 * x

    @twice.register_fake
    def _(x):
        return flambeau.empty_like(x)

    class Own(nn.Module):
        def forward(self, x):
            return twice(x)

    with pytest.raises(NotImplementedError, match="needs Python: it calls"):
        run(export(Own(), (flambeau.ones(2),)), flambeau.ones(2))
