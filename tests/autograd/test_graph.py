"""Gradient edges, nodes, multi-tensor hooks, callbacks, and the order in which gradients are handed over."""

import gc
import threading
import weakref

import pytest

import flambeau
from flambeau.autograd import grad, graph


def leaf(*values):
    return flambeau.tensor(values, dtype=flambeau.float64, requires_grad=True)


def test_edges_stand_for_tensors():
    x = leaf(1.0, 2.0)
    y = x * 3
    edge = graph.get_gradient_edge(y)
    z = y.exp().sum()
    del y
    (g,) = grad(z, edge, retain_graph=True)
    assert g.tolist() == pytest.approx([20.085536923187668, 403.4287934927351])
    assert grad(edge, x, grad_outputs=flambeau.ones(2, dtype=flambeau.float64))[0].tolist() == [3.0, 3.0]
    leaf_edge = graph.get_gradient_edge(x)
    assert leaf_edge.node.name().endswith("AccumulateGrad") and leaf_edge.output_nr == 0
    assert grad((x * 5).sum(), leaf_edge)[0].tolist() == [5.0, 5.0]
    flambeau.autograd.backward((x * 2).sum(), inputs=[leaf_edge])
    assert x.grad.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="does not require grad"):
        graph.get_gradient_edge(flambeau.ones(1))


def test_backward_from_an_edge():
    x = leaf(2.0)
    edge = graph.get_gradient_edge((x * x).sum())
    flambeau.autograd.backward(edge)
    assert x.grad.item() == 4
    with pytest.raises(RuntimeError, match="only an output of one element"):
        flambeau.autograd.backward(graph.get_gradient_edge(leaf(1.0, 2.0) * 2))


def test_accumulate_node_is_one_object_and_keeps_its_hooks():
    x = leaf(1.0)
    node = graph.get_gradient_edge(x).node
    y = x.expand_as(x)
    assert y.grad_fn.next_functions[0][0] is node and node.variable is x
    seen = []
    node.register_prehook(lambda grads: seen.append("before") or (grads[0] * 2,))
    node.register_hook(lambda inputs, outputs, ref=weakref.ref(x): seen.append((len(inputs), ref().grad.item())))
    del node, y
    gc.collect()
    (x * 3).sum().backward()
    assert seen == ["before", (0, 6.0)]
    ref = weakref.ref(x)
    del x
    gc.collect()
    assert ref() is None


def test_node_says_what_it_keeps():
    x = leaf(1.0, 2.0)
    y = x * x.exp()
    node = y.grad_fn
    assert node._saved_self is x and node._saved_other.tolist() == x.exp().tolist()
    assert node._input_metadata[0].shape == (2,) and node._input_metadata[0].dtype == flambeau.float64
    assert {"_saved_self", "_saved_other", "_raw_saved_self"} < set(dir(node)) and "_saved_names" not in dir(node)
    assert node.origin[0] == __file__ and node.origin[2] == "test_node_says_what_it_keeps"
    y.sum().backward()
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        _ = node._saved_self


def test_a_graph_that_saved_nothing_runs_twice():
    x = leaf(1.0, 2.0)
    y = (x + x).sum()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [4.0, 4.0]


def test_leaf_gradients_are_complete_when_their_hook_runs_and_come_in_order():
    torch = flambeau
    weights = [torch.rand(4, 4, requires_grad=True) for _ in range(6)]
    seen = []
    for k, w in enumerate(weights):
        w.register_post_accumulate_grad_hook(lambda p, k=k: seen.append((k, [v.grad is None for v in weights])))

    def loss():
        h = torch.ones(4, 4)
        for w in weights:
            h = (h @ w).tanh()
        return (h @ weights[3]).sum()  # the fourth is used twice: complete only at its first use
    loss().backward()
    assert [k for k, _ in seen] == [5, 4, 3, 2, 1, 0]
    assert seen[0][1] == [True] * 5 + [False]


def test_optimizer_in_backward_frees_gradients_as_it_goes():
    torch = flambeau
    layers = torch.nn.Sequential(*(torch.nn.Linear(256, 256, bias=False) for _ in range(12)))
    x = torch.rand(2, 256)

    def peak(in_backward):
        handles = []
        if in_backward:
            def step(p):
                with torch.no_grad():
                    p.sub_(p.grad, alpha=0.01)
                p.grad = None
            handles = [p.register_post_accumulate_grad_hook(step) for p in layers.parameters()]
        loss = layers(x).sum()
        gc.collect()
        before = torch.memory.stats()["allocated"]
        torch.memory.reset_peak()
        loss.backward()
        top = torch.memory.stats()["peak"] - before
        for h in handles:
            h.remove()
        for p in layers.parameters():
            p.grad = None
        return top
    one = 256 * 256 * 4
    assert peak(False) > 11 * one
    assert peak(True) < 4 * one


def test_old_graphs_only_delay_leaf_hooks():
    w = leaf(2.0)
    old = w * 3  # noqa: F841  a live node older than the pass
    seen = []
    w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.item()))
    (w * w).sum().backward()
    assert seen == [4.0]


def test_multi_grad_hook_waits_for_those_that_take_part():
    a, b, c = leaf(1.0), leaf(1.0), leaf(1.0)
    seen = []
    handle = graph.register_multi_grad_hook((a, b, c), lambda grads: seen.append([g is not None for g in grads]))
    (a * b).sum().backward()
    (a * c).sum().backward()
    (b * 2).sum().backward()
    assert seen == [[True, True, False], [True, False, True], [False, True, False]]
    handle.remove()
    (a * b).sum().backward()
    assert len(seen) == 3


def test_multi_grad_hook_any_runs_once_per_pass():
    a, b = leaf(1.0), leaf(1.0)
    seen = []
    graph.register_multi_grad_hook((a, b), lambda g: seen.append(g.item()), mode="any")
    (a * 2 + b * 3).sum().backward()
    (a * 2 + b * 3).sum().backward()
    assert len(seen) == 2
    with pytest.raises(ValueError, match="mode"):
        graph.register_multi_grad_hook((a, b), print, mode="some")


def test_callbacks_run_at_the_end_of_the_pass():
    x, seen = leaf(1.0), []
    x.register_hook(lambda g: graph.queue_callback(lambda: seen.append(x.grad.item())))
    (x * 3).sum().backward()
    assert seen == [3.0]
    with pytest.raises(RuntimeError, match="outside of a backward pass"):
        graph.queue_callback(print)


def test_creation_hook_sees_nodes_of_its_thread():
    x, names = leaf(1.0), []
    with graph.node_creation_hook(lambda n: names.append(n.name())):
        y = (x * 2).exp()
        other = threading.Thread(target=lambda: x.sin())
        other.start()
        other.join()
    y.cos()
    assert names == ["MulBackward0", "ExpBackward0"]


def test_tensor_hooks_follow_the_tensor_through_an_inplace_write():
    x, seen = leaf(2.0), []
    y = x * 1
    y.register_hook(lambda g: seen.append(("before", g.item())))
    y.mul_(3)
    y.register_hook(lambda g: seen.append(("after", g.item())))
    y.sum().backward()
    assert seen == [("after", 1.0), ("before", 3.0)]


def test_gradient_layout_follows_the_parameter():
    p = flambeau.rand(2, 3, 4).permute(2, 0, 1).requires_grad_()
    (p * flambeau.rand(4, 2, 3)).sum().backward()
    assert p.grad.stride() == p.stride()
    q = flambeau.rand(2, 3).t().requires_grad_()
    with flambeau.autograd.enforce_grad_layout_policy(False):
        (q * flambeau.rand(3, 2)).sum().backward()
    r = flambeau.rand(4, 4)[:, ::2].requires_grad_()
    (r * 2).sum().backward()
    assert r.grad.stride() == (2, 1)


def test_accumulation_is_in_place_unless_the_graph_is_kept():
    x = leaf(1.0)
    (x * 2).sum().backward()
    first = x.grad
    (x * 2).sum().backward()
    assert x.grad is first and first.item() == 4
    (x ** 2).sum().backward(create_graph=True)
    assert x.grad is not first and first.item() == 4 and x.grad.requires_grad


def test_two_leaves_do_not_share_a_gradient():
    x, y = leaf(1.0), leaf(1.0)
    (x + y).sum().backward(create_graph=True)
    with flambeau.no_grad():
        x.grad += 1
    assert y.grad.item() == 1


def test_threads_accumulate_into_one_leaf():
    x = flambeau.ones(300_000, requires_grad=True)

    def work():
        for _ in range(20):
            (x * 2).sum().backward()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert flambeau.equal(x.grad, flambeau.full((300_000,), 160.0))


def test_threads_share_a_graph():
    x = leaf(*range(50))
    y = (x * x).exp().log().sum()
    results = []

    def work():
        for _ in range(30):
            results.append(grad(y, x, retain_graph=True)[0])
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 120
    assert all(flambeau.equal(r[:20], results[0][:20]) for r in results)


def test_hooks_of_several_tensors_take_a_list():
    a, b = (flambeau.ones(2, requires_grad=True) for _ in range(2))
    seen = []
    graph.register_multi_grad_hook((a, b), seen.append)
    (a * b).sum().backward()
    assert type(seen[0]) is list and len(seen[0]) == 2
