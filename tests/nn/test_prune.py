"""Pruning: masks, their combination, and what a module holds before and after."""

import pytest

import flambeau
from flambeau import nn
from flambeau.nn.utils import prune


def linear():
    m = nn.Linear(4, 3)
    m.weight.data = flambeau.arange(1.0, 13.0).reshape(3, 4)
    return m


def test_the_smallest_go_first():
    m = linear()
    prune.l1_unstructured(m, "weight", amount=0.25)
    assert list(m.state_dict()) == ["bias", "weight_orig", "weight_mask"] and prune.is_pruned(nn.Sequential(m))
    assert m.weight_mask.flatten().tolist() == [0.0] * 3 + [1.0] * 9
    prune.l1_unstructured(m, "weight", amount=2)
    assert m.weight_mask.flatten().tolist() == [0.0] * 5 + [1.0] * 7 and len(m._forward_pre_hooks) == 1
    m(flambeau.ones(1, 4)).sum().backward()
    assert flambeau.equal(m.weight_orig.grad, m.weight_mask)
    prune.remove(m, "weight")
    assert list(m.state_dict()) == ["bias", "weight"] and not prune.is_pruned(m)
    assert m.weight.flatten().tolist()[:6] == [0.0] * 5 + [6.0] and isinstance(m.weight, nn.Parameter)


def test_channels():
    m = linear()
    prune.ln_structured(m, "weight", amount=1, n=2, dim=0)
    assert m.weight_mask.sum(1).tolist() == [0.0, 4.0, 4.0]
    prune.ln_structured(m, "weight", amount=0.5, n=1, dim=1)
    assert m.weight_mask.sum(0).tolist() == [0.0, 0.0, 2.0, 2.0]
    m = linear()
    prune.random_structured(m, "weight", amount=2, dim=1)
    assert sorted(m.weight_mask.sum(0).tolist()) == [0.0, 0.0, 3.0, 3.0]


def test_by_mask_and_at_random():
    m = linear()
    prune.identity(m, "bias")
    prune.custom_from_mask(m, "bias", flambeau.tensor([1, 0, 1]))
    assert m.bias_mask.tolist() == [1.0, 0.0, 1.0]
    prune.random_unstructured(m, "weight", amount=5)
    assert int(m.weight_mask.sum()) == 7


def test_together():
    a, b = linear(), linear()
    with flambeau.no_grad():
        b.weight += 100
    parameters = [(a, "weight"), (b, "weight")]
    prune.global_unstructured(parameters, prune.L1Unstructured, amount=0.5)
    assert int(a.weight_mask.sum()) == 0 and int(b.weight_mask.sum()) == 12
    prune.global_unstructured(parameters, prune.L1Unstructured, {(b, "weight"): -b.weight.detach()}, amount=1)
    assert int(b.weight_mask.sum()) == 11
    with pytest.raises(TypeError, match="unstructured"):
        prune.global_unstructured(parameters, prune.LnStructured, amount=1, n=1)


def test_refused():
    m = linear()
    for amount, error in ((-1, ValueError), (1.5, ValueError), ("x", TypeError), (13, ValueError)):
        with pytest.raises(error):
            prune.l1_unstructured(m, "weight", amount)
    with pytest.raises(ValueError, match="structured pruning needs at least 2 dimensions"):
        prune.ln_structured(m, "bias", 1, 2, 0)
    with pytest.raises(IndexError):
        prune.ln_structured(m, "weight", 1, 2, 5)
    with pytest.raises(AssertionError):
        prune.custom_from_mask(m, "weight", flambeau.ones(2))
    with pytest.raises(ValueError, match="of Linear is not pruned"):
        prune.remove(m, "weight")
    assert list(m.state_dict()) == ["weight", "bias"] and not m._forward_pre_hooks
