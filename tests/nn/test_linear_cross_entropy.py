"""linear_cross_entropy: the same numbers in pieces and whole."""

import itertools

import pytest

import flambeau
from flambeau import nn
from flambeau.nn import functional as F


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(("options", "ignore", "weighted"), list(itertools.product(
    ({}, {"batch_chunk_size": 3}, {"chunking_method": "aspect_ratio:4"}), (None, 2), (False, True))))
def test_pieces_give_the_whole(reduction, options, ignore, weighted):
    flambeau.manual_seed(0)
    given = [flambeau.randn(8, 5, dtype=flambeau.float64), flambeau.randn(6, 5, dtype=flambeau.float64),
             flambeau.randn(6, dtype=flambeau.float64)]
    target = flambeau.tensor([0, 1, 2, 3, 4, 5, 2, 1])
    weight = flambeau.rand(6, dtype=flambeau.float64) if weighted else None
    found = []
    for how in (None, nn.LinearCrossEntropyOptions(**options)):
        x, w, b = (t.clone().requires_grad_() for t in given)
        loss = F.linear_cross_entropy(x, w, target, linear_bias=b, weight=weight, reduction=reduction,
                                      ignore_index=ignore, options=how)
        grads = flambeau.autograd.grad((loss * flambeau.linspace(1, 2, loss.numel()).double()).sum(), (x, w, b))
        found.append((loss, *grads))
    for a, b in zip(*found, strict=True):
        assert flambeau.allclose(a, b, rtol=1e-10)


def test_pieces_have_second_derivatives():
    x = flambeau.randn(4, 3, dtype=flambeau.float64, requires_grad=True)
    w = flambeau.randn(5, 3, dtype=flambeau.float64, requires_grad=True)
    options = nn.LinearCrossEntropyOptions(batch_chunk_size=2)
    target = flambeau.tensor([0, 4, 2, 1])
    assert flambeau.autograd.gradgradcheck(
        lambda x, w: F.linear_cross_entropy(x, w, target, options=options), (x, w))


def test_half_precision_is_summed_in_float32():
    x, w = flambeau.randn(4, 3).half(), flambeau.randn(5, 3).half()
    loss = F.linear_cross_entropy(x, w, flambeau.tensor([0, 4, 2, 1]), options=nn.LinearCrossEntropyOptions())
    assert loss.dtype == flambeau.float16


def test_positions_and_what_is_refused():
    m = nn.LinearCrossEntropyLoss(5, 10, out_features=(4, 3), bias=True)
    loss = m(flambeau.randn(2, 5), flambeau.randint(0, 10, (2, 4, 3)))
    assert loss.shape == () and list(m.state_dict()) == ["linear.weight", "linear.bias"]
    for call, error in (
        (lambda: F.linear_cross_entropy(flambeau.zeros(2, 3), flambeau.zeros(4, 5), flambeau.zeros(2).long()),
         "their last dimensions must agree"),
        (lambda: F.linear_cross_entropy(flambeau.zeros(3), flambeau.zeros(4, 2, 3), flambeau.zeros(2).long()), "two"),
        (lambda: F.linear_cross_entropy(flambeau.zeros(2, 3), flambeau.zeros(4, 3), flambeau.zeros(2, 4),
                                        ignore_index=1), "ignore_index"),
        (lambda: nn.LinearCrossEntropyLoss(3, 4, label_smoothing=2.0), "label_smoothing must be between"),
    ):
        with pytest.raises(RuntimeError, match=error):
            call()
    for options in ({"acc_policy": "fast"}, {"chunking_method": "halves"}, {"batch_chunk_size": 0}):
        with pytest.raises(ValueError, match="|".join(options)):
            nn.LinearCrossEntropyOptions(**options)
