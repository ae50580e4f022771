"""The package `functorch`, which older programs import their transforms from."""

import pytest

import flambeau
from flambeau.as_torch import functorch
from flambeau.as_torch.functorch.experimental import chunk_vmap

from .test_process import served


def test_imports():
    served("""
import functorch, torch
from functorch import vmap, grad, make_functional, make_fx
from functorch.experimental import functionalize
from functorch.experimental.control_flow import cond
assert vmap is torch.vmap and grad is torch.func.grad and functorch.__version__ == torch.__version__
function, parameters = make_functional(torch.nn.Linear(2, 1))
assert [g.shape for g in grad(lambda p, x: function(p, x).sum())(parameters, torch.ones(2))] == [(1, 2), (1,)]
""")


def test_parameters_are_leaves_of_their_own():
    model = flambeau.nn.Linear(2, 1)
    function, parameters = functorch.make_functional(model)
    function(parameters, flambeau.ones(2)).sum().backward()
    assert parameters[0].grad.tolist() == [[1, 1]] and model.weight.grad is None
    _, parameters = functorch.make_functional(model, disable_autograd_tracking=True)
    assert not parameters[0].requires_grad


def test_buffers_are_given():
    model = flambeau.nn.Sequential(flambeau.nn.Linear(2, 3), flambeau.nn.BatchNorm1d(3)).eval()
    function, parameters, buffers = functorch.make_functional_with_buffers(model)
    x = flambeau.randn(4, 2)
    assert function(parameters, buffers, x).equal(model(x))
    with pytest.raises(RuntimeError, match="has 3 buffers"):
        function(parameters, (), x)
    with pytest.raises(RuntimeError, match="make_functional_with_buffers"):
        functorch.make_functional(model)


def test_tied_parameters_are_given_once():
    model = flambeau.nn.Sequential(flambeau.nn.Linear(2, 2), flambeau.nn.Linear(2, 2))
    model[1].weight = model[0].weight
    function, parameters = functorch.make_functional(model)
    assert len(parameters) == 3
    assert function(parameters, flambeau.ones(2)).equal(model(flambeau.ones(2)))


def test_vmap_in_pieces():
    pieces = []

    def seen(x):
        pieces.append(x)
        return x * 2

    x = flambeau.arange(12.).reshape(3, 4)
    assert flambeau.equal(chunk_vmap(seen, in_dims=1, out_dims=1, chunks=3)(x), x * 2)
    assert len(pieces) == 2  # of two elements each
