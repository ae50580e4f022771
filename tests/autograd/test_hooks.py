"""Hooks on tensors and nodes, and the graph as Python sees it."""

import pytest

import flambeau
from flambeau.autograd import grad


def leaf(values):
    return flambeau.tensor(values, dtype=flambeau.float64, requires_grad=True)


def test_leaf_hook_sees_and_changes_the_gradient():
    x = leaf([1.0, 2.0])
    seen = []
    x.register_hook(lambda g: seen.append(g.clone()))
    handle = x.register_hook(lambda g: g * 10)
    (x * 3).sum().backward()
    assert seen[0].tolist() == [3.0, 3.0] and x.grad.tolist() == [30.0, 30.0]
    handle.remove()
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_hooks_run_in_order_on_the_summed_gradient():
    x = leaf([1.0])
    y = x * 1
    y.register_hook(lambda g: g + 1)
    y.register_hook(lambda g: g * 2)
    (y + y).sum().backward()
    assert x.grad.tolist() == [6.0]


def test_hook_of_an_intermediate_reaches_grad_calls():
    x = leaf([1.0])
    y = x * 2
    y.register_hook(lambda g: g * 5)
    assert grad(y.sum(), x)[0].item() == 10


def test_hook_on_a_tensor_without_grad_is_refused():
    with pytest.raises(RuntimeError, match=r"require"):
        flambeau.ones(1).register_hook(lambda g: g)


def test_hook_result_must_fit():
    x = leaf([1.0, 2.0])
    x.register_hook(lambda g: g[:1])
    with pytest.raises(RuntimeError):
        (x * 1).sum().backward()
    y = leaf([1.0])
    y.register_hook(lambda g: 3)
    with pytest.raises((TypeError, RuntimeError)):
        (y * 1).sum().backward()


def test_post_accumulate_grad_hook():
    x = leaf([1.0])
    seen = []

    def hook(t):
        seen.append((t is x, t.grad.item()))
        t.grad = None
    x.register_post_accumulate_grad_hook(hook)
    (x * 3).sum().backward()
    assert seen == [(True, 3.0)] and x.grad is None


def test_retain_grad_sees_the_hooked_gradient():
    x = leaf([1.0])
    y = x * 2
    y.register_hook(lambda g: g * 3)
    y.retain_grad()
    y.sum().backward()
    assert y.grad.item() == 3.0


def test_node_hooks():
    x = leaf([1.0])
    y = x * 2
    seen = []
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append((len(inputs), len(outputs))))
    y.grad_fn.register_prehook(lambda outputs: seen.append("before"))
    y.sum().backward()
    assert seen[0] == "before" and seen[1][1] == 1


def test_node_hook_changes_gradients():
    x = leaf([1.0])
    y = x.exp()
    y.grad_fn.register_prehook(lambda outputs: tuple(g * 2 for g in outputs))
    y.grad_fn.register_hook(lambda inputs, outputs: tuple(g if g is None else g * 5 for g in inputs))
    y.sum().backward()
    assert x.grad.item() == pytest.approx(10 * 2.718281828459045)


def test_graph_is_visible():
    x = leaf([1.0])
    y = (x * 2).exp()
    node = y.grad_fn
    assert "Exp" in node.name()
    (parent, position), = [e for e in node.next_functions if e[0] is not None]
    assert "Mul" in parent.name() and position == 0
    leaves = [n for n, _ in parent.next_functions if n is not None]
    assert leaves[0].name().endswith("AccumulateGrad") and leaves[0].variable is x
    assert isinstance(node.metadata, dict)
    assert x.grad_fn is None and y.grad_fn is node


def test_metadata_is_kept():
    y = leaf([1.0]) * 2
    y.grad_fn.metadata["where"] = 3
    assert y.grad_fn.metadata == {"where": 3}


def test_what_accumulates_a_gradient_has_hooks_on_both_sides():
    x, seen = flambeau.tensor([1.0, 2.0], requires_grad=True), []
    node = x.view_as(x).grad_fn.next_functions[0][0]
    node.register_prehook(lambda grads: seen.append([g.tolist() for g in grads]))
    node.register_hook(lambda inputs, outputs: seen.append((inputs, [g.tolist() for g in outputs], x.grad.tolist())))
    (x * x).sum().backward()
    assert seen == [[[2, 4]], ((), [[2, 4]], [2, 4])]


def test_a_gradient_that_is_asked_for_comes_before_the_hooks_of_the_node():
    x, seen = leaf([1.0, 2.0]), []
    y = x * 3
    y.register_hook(lambda g: (seen.append("tensor"), g * 10)[1])
    y.grad_fn.register_prehook(lambda grads: (seen.append("node"), (grads[0] * 2,))[1])
    assert flambeau.autograd.grad((y * y).sum(), y)[0].tolist() == [60, 120] and seen == ["tensor"]
    assert flambeau.autograd.grad((y * y).sum(), x)[0].tolist() == [360, 720] and seen[1:] == ["tensor", "node"]


def test_a_hook_after_accumulation_runs_before_that_of_its_node():
    x, seen = leaf([1.0]), []
    node = x.view_as(x).grad_fn.next_functions[0][0]
    node.register_hook(lambda inputs, outputs: seen.append("node"))
    x.register_post_accumulate_grad_hook(lambda t: seen.append("leaf"))
    (x * x).sum().backward()
    assert seen == ["leaf", "node"]


def test_what_backward_is_asked_for_keeps_its_gradient():
    x = leaf([1.0, 2.0])
    y = x * 3
    z = (y * y).sum()
    for _ in range(2):
        z.backward(inputs=[y], retain_graph=True)
    assert y.retains_grad and y.grad.tolist() == [12, 24] and x.grad is None
    z.backward()
    assert y.grad.tolist() == [18, 36] and x.grad.tolist() == [18, 36]
