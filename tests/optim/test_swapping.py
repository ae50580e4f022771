"""swap_in_optimizer_params_and_state: steps on other tensors are those of an optimizer of their own."""

from copy import deepcopy

import pytest

import flambeau
from flambeau.optim import SGD, Adam, swap_in_optimizer_params_and_state


def made(kind):
    flambeau.manual_seed(0)
    layer = flambeau.nn.Linear(3, 2)
    optimizer = kind([{"params": [layer.weight]}, {"params": [layer.bias], "lr": 0.5}], lr=0.1)
    stepped(optimizer, [layer.weight, layer.bias])
    return layer, optimizer


def stepped(optimizer, parameters):
    for p in parameters:
        p.grad = flambeau.ones_like(p) * 0.3
    optimizer.step()


@pytest.mark.parametrize("kind", [Adam, lambda *a, **k: SGD(*a, momentum=0.9, **k)])
def test_steps_are_those_of_another_optimizer(kind):
    layer, optimizer = made(kind)
    before, kept = [p.detach().clone() for p in layer.parameters()], deepcopy(optimizer.state_dict())
    others = {name: p.detach() + 1 for name, p in layer.named_parameters()}
    state = deepcopy(optimizer.state_dict())
    state["param_groups"][0]["lr"] = 2.0
    with swap_in_optimizer_params_and_state(optimizer, others, state):
        stepped(optimizer, others.values())
        assert optimizer.param_groups[0]["lr"] == 2.0
        optimizer.param_groups[0]["lr"] = 7.0

    twin, its = made(kind)
    with flambeau.no_grad():
        for p in twin.parameters():
            p += 1
    its.param_groups[0]["lr"] = 2.0
    stepped(its, list(twin.parameters()))
    for p, q in zip(others.values(), twin.parameters(), strict=True):
        assert flambeau.equal(p, q)
    assert all(map(flambeau.equal, before, layer.parameters()))
    assert optimizer.param_groups[0]["lr"] == 0.1
    for key, values in kept["state"].items():
        assert all(flambeau.equal(v, optimizer.state_dict()["state"][key][name]) for name, v in values.items()
                   if isinstance(v, flambeau.Tensor))


def test_what_does_not_fit_is_refused():
    layer, optimizer = made(Adam)
    others, state = dict(layer.named_parameters()), optimizer.state_dict()
    for parameters, saved, text in [
            ({"weight": layer.weight}, state, "there are 1 swapin_parameters"),
            (others, {**state, "param_groups": []}, "of .. parameters|of .* parameters, swapin_optim_state of"),
            (others, {"state": {}}, "form of optimizer.state_dict"), (others, 3, "form of optimizer.state_dict")]:
        with pytest.raises(RuntimeError, match=text), swap_in_optimizer_params_and_state(optimizer, parameters, saved):
            pass
    fresh = Adam(layer.parameters())
    with pytest.raises(RuntimeError, match="no state yet"), swap_in_optimizer_params_and_state(fresh, others, state):
        pass
