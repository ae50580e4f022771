"""Traces in which scripted functions and modules are called: what they decide is decided by the values of each call."""

import io

import pytest

import flambeau
from flambeau import nn


def through(program):
    return flambeau.jit.load(io.BytesIO(program.save_to_buffer()))


@flambeau.jit.script
def folded(x, k: int):
    if bool(x.sum() > 0):
        return x * k
    return x - k


@flambeau.jit.script
def raised(x):
    while not bool((x > 3).all()):
        x = x + 1
    return x


@flambeau.jit.script_if_tracing
def split(x: flambeau.Tensor, k: int = 2):
    if bool(x.sum() > 0):
        return x * k, x
    return x, -x


@flambeau.jit.script
def straight(x):
    return x * 2


@pytest.mark.parametrize(("function", "text"), [
    (lambda x: folded(x, 3) + 1, "folded(x, 3)"), (lambda x: raised(x).view(x.size(0), -1), "raised(x)"),
    (lambda x: sum(split(x)) + sum(split(x, k=5)), "split(x, 5)"), (lambda x: straight(x) + 1, "torch.mul(x, 2)"),
])
@pytest.mark.filterwarnings("error")
def test_functions(function, text):
    traced = flambeau.jit.trace(function, flambeau.ones(2, 3))
    assert text in traced.code
    for x in (flambeau.ones(2, 3), -flambeau.ones(4, 3)):
        assert flambeau.equal(traced(x), function(x)) and flambeau.equal(through(traced)(x), function(x))


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = 2.0

    def forward(self, x):
        return x * self.factor if bool(x.sum() > 0) else -x


class Cell(nn.Module):
    def __init__(self, gate):
        super().__init__()
        self.gate, self.linear = gate, nn.Linear(4, 4)

    def forward(self, x, h):
        h = flambeau.tanh(self.gate(self.linear(x)) + h)
        return h, h


class Loop(nn.Module):
    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, xs):
        h, y = flambeau.zeros(3, 4), flambeau.zeros(3, 4)
        for i in range(xs.size(0)):
            y, h = self.cell(xs[i], h)
        return y, h


class Outer(nn.Module):
    def __init__(self, loop):
        super().__init__()
        self.loop = loop

    def forward(self, xs):
        return self.loop(xs)[0].relu()


@pytest.mark.filterwarnings("error")
def test_scripts_in_traces_in_scripts_in_a_trace():
    cell = flambeau.jit.trace(Cell(flambeau.jit.script(Gate())), (flambeau.rand(3, 4), flambeau.rand(3, 4)))
    assert "self.gate.forward(" in cell.code and "if" in cell.gate.code
    outer = Outer(flambeau.jit.script(Loop(cell)))
    traced = flambeau.jit.trace(outer, flambeau.rand(5, 3, 4))
    assert "self.loop.forward(xs)" in traced.code and "for " in traced.loop.code
    for xs in (flambeau.randn(7, 3, 4), flambeau.zeros(1, 3, 4)):
        assert flambeau.allclose(traced(xs), outer(xs)) and flambeau.allclose(through(traced)(xs), outer(xs))
    assert "forward" not in vars(outer.loop)


def test_a_gradient_ends_where_the_trace_was_detached():
    for function in (lambda x: x + (x.round() - x).detach(), lambda x: x + flambeau.detach(x.round() - x),
                     lambda x: x + (x.round() - x).data):
        traced = flambeau.jit.trace(function, flambeau.rand(2))
        x = flambeau.tensor([0.2, 1.7], requires_grad=True)
        traced(x).sum().backward()
        assert "torch.detach(" in traced.code and x.grad.tolist() == [1, 1] and traced(x).tolist() == [0, 2]
