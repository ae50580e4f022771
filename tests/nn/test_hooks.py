"""Hooks of modules: their order, what they may replace, global ones, and gradients seen by backward hooks."""

import copy
import pickle
from collections import OrderedDict

import pytest

import flambeau
from flambeau import nn
from flambeau.nn.modules import module as module_file
from flambeau.utils.hooks import RemovableHandle


def test_order_and_removal():
    layer, log = nn.Identity(), []
    handles = [
        layer.register_forward_pre_hook(lambda m, args: log.append("pre 1")),
        layer.register_forward_pre_hook(lambda m, args: log.append("pre 0"), prepend=True),
        layer.register_forward_hook(lambda m, args, out: log.append("post 1")),
        layer.register_forward_hook(lambda m, args, out: log.append("post 0"), prepend=True),
    ]
    layer(1)
    assert log == ["pre 0", "pre 1", "post 0", "post 1"]
    for handle in handles:
        handle.remove()
    log.clear()
    assert layer(2) == 2 and log == []
    with layer.register_forward_hook(lambda m, args, out: out + 1):
        assert layer(2) == 3
    assert layer(2) == 2


def test_hooks_replace_arguments_and_results():
    class Add(nn.Module):
        def forward(self, x, *, extra=0):
            return x + extra

    layer = Add()
    layer.register_forward_pre_hook(lambda m, args: args[0] * 10)
    layer.register_forward_pre_hook(lambda m, args, kwargs: (args, {"extra": 5}), with_kwargs=True)
    layer.register_forward_hook(lambda m, args, kwargs, out: (args, kwargs, out), with_kwargs=True)
    assert layer(1) == ((10,), {"extra": 5}, 15)


def test_pre_hook_with_kwargs_must_return_a_pair():
    layer = nn.Identity()
    layer.register_forward_pre_hook(lambda m, args, kwargs: 3, with_kwargs=True)
    with pytest.raises(RuntimeError, match="forward pre-hook with with_kwargs=True: return"):
        layer(1)


def test_always_called_hooks_run_after_errors():
    layer, log = nn.Linear(1, 1), []
    layer.register_forward_hook(lambda m, args, out: log.append("never"))
    layer.register_forward_hook(lambda m, args, out: log.append(out), always_call=True)
    with pytest.raises(RuntimeError):
        layer(flambeau.zeros(1, 2))
    assert log == [None]

    def broken(m, args, out):
        raise ValueError("in the hook")

    layer.register_forward_hook(broken, always_call=True)
    with pytest.warns(UserWarning, match="failed after an earlier error"), pytest.raises(RuntimeError):
        layer(flambeau.zeros(1, 2))


def test_hooks_put_straight_into_the_table_run():
    layer, log = nn.Identity(), []
    layer(1)
    layer._forward_hooks[0] = lambda m, args, out: log.append(out)
    layer(7)
    assert log == [7]


def test_global_hooks():
    model, log = nn.Sequential(nn.Identity(), nn.Tanh()), []
    with (
        module_file.register_module_forward_hook(lambda m, args, out: log.append(type(m).__name__)),
        module_file.register_module_forward_pre_hook(lambda m, args: log.append("pre")),
    ):
        model(flambeau.zeros(1))
    assert log == ["pre", "pre", "Identity", "pre", "Tanh", "Sequential"]
    log.clear()
    model(flambeau.zeros(1))
    assert log == []


def test_global_backward_hooks():
    layer, log = nn.Linear(1, 1), []
    x = flambeau.ones(1, requires_grad=True)
    with (
        module_file.register_module_full_backward_pre_hook(lambda m, grad_output: log.append("pre")),
        module_file.register_module_full_backward_hook(lambda m, grad_input, grad_output: log.append("post")),
    ):
        layer(x).backward()
    assert log == ["pre", "post"]


def test_registration_hooks():
    log = []
    handles = [
        module_file.register_module_parameter_registration_hook(lambda m, name, p: log.append(name)),
        module_file.register_module_module_registration_hook(lambda m, name, s: log.append(name)),
        module_file.register_module_buffer_registration_hook(lambda m, name, b: b + 1),
    ]
    try:
        net = nn.Module()
        net.layer = nn.Linear(1, 1)
        net.register_buffer("count", flambeau.zeros(1))
    finally:
        for handle in handles:
            handle.remove()
    assert log == ["weight", "bias", "layer"] and net.count.item() == 1


def test_backward_hooks_see_and_replace_gradients():
    layer, log = nn.Linear(2, 2, bias=False), []
    nn.init.eye_(layer.weight)
    layer.register_full_backward_pre_hook(lambda m, grad_output: log.append(("pre", grad_output[0].tolist())))
    layer.register_full_backward_hook(
        lambda m, grad_input, grad_output: log.append((grad_input[0].tolist(), grad_output[0].tolist()))
    )
    handle = layer.register_full_backward_hook(lambda m, grad_input, grad_output: (grad_input[0] * 2,))
    x = flambeau.ones(1, 2, requires_grad=True)
    (layer(x) * flambeau.tensor([[1.0, 3.0]])).sum().backward()
    assert log == [("pre", [[1, 3]]), ([[1, 3]], [[1, 3]])]
    assert x.grad.tolist() == [[2, 6]]
    handle.remove()
    layer.register_full_backward_pre_hook(lambda m, grad_output: (grad_output[0] * 0,))
    x.grad = None
    layer(x).sum().backward()
    assert x.grad.tolist() == [[0, 0]]


def test_backward_hook_without_an_input_that_wants_a_gradient():
    layer, log = nn.Linear(2, 1), []
    layer.register_full_backward_hook(lambda m, grad_input, grad_output: log.append(grad_input))
    layer(flambeau.ones(1, 2)).sum().backward()
    assert log == [(None,)]
    with flambeau.no_grad():
        layer(flambeau.ones(1, 2))


def test_backward_hooks_of_several_inputs_and_outputs():
    class Both(nn.Module):
        def forward(self, a, k, b):
            return {"sum": a + b, "product": a * b * k}

    module, log = Both(), []
    module.register_full_backward_hook(lambda m, gi, go: log.append((gi, go)))
    a, b = flambeau.ones(1, requires_grad=True), flambeau.full((1,), 2.0, requires_grad=True)
    out = module(a, 3, b)
    (out["sum"] + out["product"]).backward()
    (grad_input, grad_output) = log[0]
    assert grad_input[0].item() == 7 and grad_input[1] is None and grad_input[2].item() == 4
    assert [g.item() for g in grad_output] == [1, 1]


def test_tables_are_made_only_when_something_is_put_in():
    model = nn.Sequential(nn.Linear(1, 1))
    with module_file.register_module_forward_hook(lambda m, args, out: None):
        model(flambeau.zeros(1))
    model.load_state_dict(model.state_dict())
    assert not [name for name in model[0].__dict__ if "hooks" in name or "persistent" in name]


def test_handles_are_copied_and_pickled_with_their_module():
    layer = nn.Linear(1, 1)
    layer.handle = layer.register_forward_hook(len)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert len(other._forward_hooks) == 1 and other.handle.hooks_dict_ref() is other._forward_hooks
        other.handle.remove()
        assert not other._forward_hooks and len(layer._forward_hooks) == 1
    alone = pickle.loads(pickle.dumps(layer.register_forward_hook(len)))
    alone.remove()


def test_a_pickled_handle_whose_table_is_gone_leaves_the_others_as_they_are():
    table, mark = OrderedDict(), OrderedDict({-1: True})
    handle = RemovableHandle(table, extra=[mark])
    del table
    kept, mark = pickle.loads(pickle.dumps((handle, mark)))
    assert kept.hooks_dict_ref() is None and kept._marks[0]() is mark
    kept.remove()
    assert mark == {-1: True}


def test_backward_hooks_run_once_in_a_second_derivative():
    loss, x, calls = nn.MSELoss(), flambeau.rand(1, requires_grad=True), []
    loss.register_full_backward_hook(lambda *args: calls.append(1))
    grad, = flambeau.autograd.grad(loss(x, flambeau.rand(1)), x, create_graph=True)
    assert len(calls) == 1
    assert flambeau.autograd.grad(grad, x)[0].item() == 2 and len(calls) == 1


def test_backward_hooks_wait_for_a_result_they_can_see():
    class Hidden(nn.Module):
        def forward(self, x):
            return {"a": {"b": x * 2}}

    layer, calls, x = Hidden(), [], flambeau.ones(1, requires_grad=True)
    layer.register_full_backward_hook(lambda *args: calls.append(1))
    layer(x)["a"]["b"].backward()
    assert x.grad.item() == 2 and not calls
