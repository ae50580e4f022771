"""Inference mode: what its tensors can and cannot do, inside and outside."""

import pytest

import flambeau
from flambeau import inference_mode


@pytest.fixture
def made():
    with inference_mode():
        return flambeau.ones(2)


def test_results_are_inference_tensors_views_of_others_are_not(made):
    normal, leaf = flambeau.ones(2), flambeau.ones(2, requires_grad=True)
    assert made.is_inference() and not made.requires_grad
    with inference_mode():
        y = leaf * 2
        assert y.is_inference() and y.is_leaf and not y.requires_grad
        assert not normal[:1].is_inference()
        normal.add_(1)
        leaf.mul_(1)
    assert normal._version == 1 and not normal.is_inference() and not leaf.is_inference()


def test_outside_they_are_read_only_to_autograd(made):
    leaf = flambeau.ones(2, requires_grad=True)
    for write in (lambda: made.add_(1), lambda: made[0].add_(1), lambda: made.view(2).zero_(),
                  lambda: flambeau.add(leaf.detach(), 1, out=made)):
        with pytest.raises(RuntimeError, match="made under inference_mode and can be changed only there"):
            write()
    with pytest.raises(RuntimeError, match="cannot be saved for backward"):
        made * leaf
    (made + leaf).sum().backward()  # nothing is saved
    assert leaf.grad.tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="counts no versions"):
        _ = made._version
    for switch in (lambda: made.requires_grad_(), lambda: flambeau.nn.Parameter(made)):
        with pytest.raises(RuntimeError, match="made under inference_mode"):
            switch()


def test_copies_are_normal(made):
    assert not made.clone().is_inference() and not (made * 2).is_inference()
    assert made.view(2).is_inference() and made.detach().is_inference()
    made.clone().requires_grad_()


def test_views_made_inside_cannot_be_written_outside():
    leaf = flambeau.ones(2, requires_grad=True)
    with inference_mode():
        view = leaf[:1]
    with pytest.raises(RuntimeError, match="this view was made under no_grad, so a change"):
        view.mul_(2)


def test_modes_inside():
    leaf = flambeau.ones(2, requires_grad=True)
    with inference_mode():
        with flambeau.enable_grad():
            assert flambeau.is_grad_enabled() and not (leaf * 2).requires_grad
        with inference_mode(False):
            made = flambeau.ones(2)
            assert not made.is_inference() and (leaf * 2).requires_grad


def test_a_batch_of_gradients_in_one_pass():
    x = flambeau.rand(3, requires_grad=True)
    y = (x * x).exp()
    one = flambeau.autograd.grad(y, x, flambeau.eye(3), is_grads_batched=True, retain_graph=True)[0]
    assert flambeau.allclose(one, flambeau.diag((2 * x * y).detach()))
    z = flambeau.ones(1, requires_grad=True)
    found = flambeau.autograd.grad(y, (z, x), flambeau.eye(3), is_grads_batched=True, allow_unused=True)
    assert found[0] is None and flambeau.equal(found[1], one)
