"""Reverse mode: what backward and grad compute, accumulate, keep and refuse."""

import copy
import gc

import pytest

import flambeau
from flambeau.autograd import grad


def leaf(values, dtype=flambeau.float64):
    return flambeau.tensor(values, dtype=dtype, requires_grad=True)


def test_chain_rule():
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    z = (x * y + x.exp()).sum()
    z.backward()
    assert flambeau.allclose(x.grad, y.detach() + x.detach().exp())
    assert flambeau.allclose(y.grad, x.detach())


def test_grad_accumulates():
    x = leaf([1.0, 2.0])
    for k in range(1, 4):
        (x * x).sum().backward()
        assert flambeau.allclose(x.grad, 2 * k * x.detach())


def test_grad_function_leaves_grad_alone():
    x = leaf([1.0, 2.0])
    (g,) = grad((x * x).sum(), x)
    assert g.tolist() == [2.0, 4.0]
    assert x.grad is None


def test_only_inputs_is_an_older_argument():
    x = flambeau.tensor(2.0, requires_grad=True)
    with pytest.warns(FutureWarning, match="only_inputs is not read"):
        assert flambeau.autograd.grad(x * x, x, only_inputs=False)[0].item() == 4 and x.grad is None


def test_first_gradient_is_not_an_alias_of_the_users_tensor():
    x = leaf([1.0, 2.0])
    v = flambeau.ones(2, dtype=flambeau.float64)
    (x + 0).backward(v)
    x.grad.mul_(5)
    assert v.tolist() == [1.0, 1.0]


def test_same_gradient_for_two_leaves_is_not_shared():
    x, y = leaf([1.0]), leaf([1.0])
    (x + y).sum().backward()
    x.grad.mul_(7)
    assert y.grad.tolist() == [1.0]


def test_same_tensor_twice():
    x = leaf([3.0])
    (x * x).backward(flambeau.ones(1, dtype=flambeau.float64))
    assert x.grad.tolist() == [6.0]


@pytest.mark.parametrize("shapes", [((2, 3), (3,)), ((2, 3), (2, 1)), ((), (2, 2)), ((4, 1), (1, 5)), ((1,), (3, 1))])
def test_broadcast_gradients_are_summed(shapes):
    x, y = (flambeau.rand(s, dtype=flambeau.float64, requires_grad=True) for s in shapes)
    (x * y).sum().backward()
    assert x.grad.shape == x.shape and y.grad.shape == y.shape
    whole = flambeau.ones((x + y).shape, dtype=flambeau.float64)
    assert flambeau.allclose(x.grad.sum() * 1, (whole * y.detach() * flambeau.ones_like(x)).sum())


def test_mixed_dtypes():
    x = leaf([1.0, 2.0], flambeau.float32)
    y = leaf([3.0, 4.0], flambeau.float64)
    (x * y).sum().backward()
    assert x.grad.dtype == flambeau.float32 and y.grad.dtype == flambeau.float64
    assert x.grad.tolist() == [3.0, 4.0]


def test_diamond_visits_each_node_once():
    calls = []
    x = leaf([1.0])
    y = x * 2
    y.register_hook(lambda g: calls.append(g.item()))
    (y + y * y + y.exp()).sum().backward()
    assert len(calls) == 1


def test_backward_twice_is_refused_without_retain_graph():
    x = leaf([2.0])
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="retain_graph=True to the first"):
        y.backward()


def test_retain_graph():
    x = leaf([2.0])
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [8.0]


def test_create_graph():
    x = leaf([2.0])
    (g,) = grad((x ** 3).sum(), x, create_graph=True)
    (gg,) = grad(g.sum(), x, create_graph=True)
    (ggg,) = grad(gg.sum(), x)
    assert g.item() == pytest.approx(12) and gg.item() == pytest.approx(12) and ggg.item() == pytest.approx(6)
    assert not ggg.requires_grad


def test_backward_with_create_graph_fills_differentiable_grad():
    x = leaf([2.0])
    (x ** 3).sum().backward(create_graph=True)
    assert x.grad.requires_grad
    (g,) = grad(x.grad.sum(), x)
    assert g.item() == pytest.approx(12)
    x.grad = None


def test_unused_inputs():
    x, y = leaf([1.0]), leaf([1.0])
    z = (x * 2).sum()
    with pytest.raises(RuntimeError, match=r"allow_unused"):
        grad(z, (x, y), retain_graph=True)
    g = grad(z, (x, y), allow_unused=True, retain_graph=True)
    assert g[0].item() == 2 and g[1] is None
    g = grad(z, (x, y), materialize_grads=True)
    assert g[1].tolist() == [0.0]


def test_grad_of_intermediate():
    x = leaf([2.0])
    y = x * x
    z = (y * 3).sum()
    assert grad(z, y, retain_graph=True)[0].item() == 3
    assert [g.item() for g in grad(z, (x, y))] == [12.0, 3.0]


def test_grad_of_a_tensor_by_itself():
    x = leaf([2.0])
    assert grad(x.sum(), x)[0].item() == 1
    y = x * 2
    assert grad(y, y, flambeau.ones(1, dtype=flambeau.float64))[0].item() == 1


def test_several_outputs():
    x = leaf([2.0])
    g = grad([x * 2, x * x], x, [flambeau.ones(1, dtype=flambeau.float64)] * 2)
    assert g[0].item() == 6


def test_backward_inputs_restricts_accumulation():
    x, y = leaf([1.0]), leaf([1.0])
    (x * y).sum().backward(inputs=[x])
    assert x.grad is not None and y.grad is None


def test_non_scalar_needs_gradient():
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match="only a tensor of one element needs no gradient"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match=r"[Ss]hape"):
        (x * 2).backward(flambeau.ones(3, dtype=flambeau.float64))
    (x * 2).backward(flambeau.tensor([1.0, 10.0], dtype=flambeau.float64))
    assert x.grad.tolist() == [2.0, 20.0]


def test_no_graph_is_refused():
    with pytest.raises(RuntimeError, match=r"require"):
        flambeau.ones(1).sum().backward()


def test_integer_tensors_do_not_require_grad():
    with pytest.raises(RuntimeError, match=r"[Ff]loating"):
        flambeau.tensor([1, 2], requires_grad=True)
    with pytest.raises(RuntimeError, match=r"[Ff]loating"):
        flambeau.tensor([1, 2]).requires_grad_()


def test_requires_grad_flag_of_a_non_leaf():
    y = leaf([1.0]) * 2
    assert y.requires_grad and not y.is_leaf
    with pytest.raises(RuntimeError, match=r"leaf"):
        y.requires_grad = False


def test_detach():
    x = leaf([2.0])
    y = (x * x).detach()
    assert not y.requires_grad and y.grad_fn is None
    (x * y).sum().backward()
    assert x.grad.tolist() == [4.0]
    assert x.detach().data_ptr() == x.data_ptr()


def test_retain_grad():
    x = leaf([2.0])
    y = x * 3
    y.retain_grad()
    assert y.retains_grad
    (y * y).sum().backward()
    assert y.grad.item() == 12.0


def test_grad_can_be_assigned_and_is_checked():
    x = leaf([1.0, 2.0])
    x.grad = flambeau.tensor([5.0, 5.0], dtype=flambeau.float64)
    (x * 1).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]
    x.grad = None
    assert x.grad is None
    with pytest.raises(RuntimeError):
        x.grad = flambeau.ones(3, dtype=flambeau.float64)
    with pytest.raises(RuntimeError):
        x.grad = flambeau.ones(2, dtype=flambeau.float32)
    with pytest.raises(TypeError):
        x.grad = 3


def test_deepcopy_of_a_leaf():
    x = leaf([1.0, 2.0])
    (x * x).sum().backward()
    y = copy.deepcopy(x)
    assert y.requires_grad and y.is_leaf
    assert y.tolist() == x.tolist() and y.data_ptr() != x.data_ptr()
    assert y.grad.tolist() == x.grad.tolist()
    y.grad.zero_()
    assert x.grad.tolist() == [2.0, 4.0]


def test_deepcopy_of_a_non_leaf_is_refused():
    with pytest.raises(RuntimeError, match=r"[Oo]nly Tensors created explicitly|deepcopy|graph leaves"):
        copy.deepcopy(leaf([1.0]) * 2)


def test_long_chain_does_not_overflow_the_stack():
    x = leaf([1.0])
    y = x
    for _ in range(100_000):
        y = y * 1.0
    y.sum().backward()
    assert x.grad.tolist() == [1.0]


def test_long_chain_is_freed_without_overflow():
    x = leaf([1.0])
    y = x
    for _ in range(100_000):
        y = y + 1.0
    del y
    gc.collect()


def test_wide_graph():
    x = leaf([1.0])
    total = sum((x * float(k) for k in range(1000)), x * 0)
    total.sum().backward()
    assert x.grad.item() == sum(range(1000))


def test_error_in_a_rule_leaves_the_engine_usable():
    x = leaf([1.0])
    y = x * 2

    def fail(g):
        raise KeyError("from the hook")
    y.register_hook(fail)
    with pytest.raises(KeyError, match=r"from the hook"):
        y.sum().backward()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0]


def test_backward_inside_a_hook():
    x, z = leaf([2.0]), leaf([5.0])

    def nested(g):
        with flambeau.enable_grad():  # hooks run as the pass does: recording only under create_graph
            (z * z).sum().backward()
    y = x * x
    y.register_hook(nested)
    y.sum().backward()
    assert x.grad.item() == 4.0 and z.grad.item() == 10.0


def test_complex_gradient_is_conjugate_derivative():
    z = flambeau.tensor([1.0 + 2.0j], dtype=flambeau.complex128, requires_grad=True)
    (z * z.conj()).real.sum().backward()
    assert z.grad.item() == pytest.approx(2 + 4j)


def test_real_leaf_of_a_complex_result_gets_a_real_gradient():
    x = leaf([2.0])
    ((x * 1j).abs() ** 2).sum().backward()
    assert x.grad.dtype == flambeau.float64 and x.grad.item() == pytest.approx(4.0)


def test_materialized_gradients_take_part_in_further_ones():
    x, y = flambeau.ones(2, requires_grad=True), flambeau.ones(2, requires_grad=True)
    second, = grad(grad((x * y).sum(), x, create_graph=True), x, flambeau.ones(2), materialize_grads=True,
                   create_graph=True)
    assert grad(second.sum(), x, materialize_grads=True)[0].tolist() == [0, 0]
    assert not grad(x.sum(), y, materialize_grads=True)[0].requires_grad


def test_gradients_by_nothing():
    with pytest.raises(RuntimeError, match="inputs is empty"):
        grad(flambeau.ones(1, requires_grad=True), [])


def test_a_given_gradient_takes_the_dtype_of_its_tensor():
    for layer in (flambeau.nn.Linear(2, 3), flambeau.nn.Conv2d(2, 3, 1)):
        layer.bfloat16()
        y = layer(flambeau.ones((1, 2, 1, 1) if layer.weight.ndim == 4 else (1, 2), dtype=flambeau.bfloat16))
        seen = []
        y.retain_grad()
        y.register_hook(lambda g, seen=seen: seen.append(g.dtype))
        y.backward(flambeau.ones(y.shape, dtype=flambeau.float64))
        assert seen == [y.grad.dtype] == [layer.weight.grad.dtype] == [flambeau.bfloat16]
    x = flambeau.ones(2, requires_grad=True)
    assert grad(x * 3, x, flambeau.tensor([1, 2]))[0].tolist() == [3, 6]
    edge = flambeau.autograd.graph.get_gradient_edge(x * 3)
    assert grad(edge, x, flambeau.ones(2, dtype=flambeau.float64))[0].tolist() == [3, 3]


def test_the_gradient_by_its_private_name():
    x = flambeau.ones(2, requires_grad=True)
    x._grad = flambeau.tensor([1.0, 2.0])
    assert x.grad is x._grad and x.grad.tolist() == [1, 2]


def test_losses_take_masks_as_targets():
    functional = flambeau.nn.functional
    mask = flambeau.tensor([True, False])
    for loss, expected in ((functional.mse_loss, [-0.5, 0.25]), (functional.l1_loss, [-0.5, 0.5]),
                           (functional.smooth_l1_loss, [-0.25, 0.125])):
        for order in (1, -1):
            x = flambeau.tensor([0.5, 0.25], requires_grad=True)
            loss(*(x, mask)[::order]).backward()
            assert x.grad.tolist() == expected


def test_deviations_of_nothing_have_a_gradient():
    for moment in (flambeau.std, flambeau.var):
        x = flambeau.zeros(0, 2, requires_grad=True)
        moment(x, 0).sum().backward()
        assert x.grad.shape == (0, 2)


def test_results_of_logaddexp_can_be_written_to():
    for join in (flambeau.logaddexp, flambeau.logaddexp2):
        a, b = (flambeau.tensor([v], dtype=flambeau.float64, requires_grad=True) for v in (0.3, 0.9))
        join(a, b).mul_(2).backward()
        assert abs(a.grad.item() + b.grad.item() - 2) < 1e-12
