"""Losses against their formulas; reductions, weights, ignored and wrong labels; derivatives of the fused ones."""

import numpy as np
import pytest

import flambeau
import flambeau.nn.functional as F
from flambeau.autograd.gradcheck import gradcheck, gradgradcheck

RNG = np.random.default_rng(0)
t = flambeau.from_numpy


def close(found, expected):
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-9, atol=1e-10)


def reduced(loss, reduction):
    return {"none": lambda: loss, "sum": loss.sum, "mean": loss.mean}[reduction]()


def class_loss(logits, labels, weight, ignore, smoothing, reduction):
    """Cross entropy label by label; logits [labels, classes]."""
    logp = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    keep = labels != ignore
    safe = np.where(keep, labels, 0)
    w = weight[safe] * keep
    loss = -(1 - smoothing) * w * np.take_along_axis(logp, safe[:, None], 1)[:, 0]
    loss -= smoothing / logits.shape[1] * (logp * weight).sum(1) * keep
    return loss.sum() / w.sum() if reduction == "mean" else reduced(loss, reduction)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("shape", [(7, 5), (2, 5, 3, 4), (2, 3, 301)], ids=str)
def test_cross_entropy(shape, smoothing, reduction):
    a, classes = RNG.standard_normal(shape), shape[1]
    labels = RNG.integers(0, classes, (shape[0], *shape[2:]))
    weight = RNG.uniform(0.5, 2, classes)
    rows = np.moveaxis(a, 1, -1).reshape(-1, classes)
    expected = class_loss(rows, labels.reshape(-1), weight, 1, smoothing, reduction)
    expected = expected.reshape(labels.shape if reduction == "none" else ())
    x = t(a).requires_grad_()
    found = F.cross_entropy(x, t(labels), t(weight), ignore_index=1, reduction=reduction, label_smoothing=smoothing)
    close(found, expected)
    if smoothing == 0:
        close(F.nll_loss(x.log_softmax(1), t(labels), t(weight), ignore_index=1, reduction=reduction), expected)
    found.sum().backward()
    fused, x.grad = x.grad, None
    smooth = np.moveaxis(np.eye(classes)[labels], -1, 1) * (1 - smoothing) + smoothing / classes
    q = t(smooth * weight.reshape(1, -1, *[1] * (a.ndim - 2)))
    keep = t((labels != 1)[:, None].astype(float))
    scale = (weight[labels] * (labels != 1)).sum() if reduction == "mean" else 1
    (-(x.log_softmax(1) * q * keep).sum() / scale).backward()
    close(fused, x.grad.numpy())


def test_forms_of_cross_entropy():
    a = RNG.standard_normal((4, 3))
    p = np.exp(a) / np.exp(a).sum(1, keepdims=True)
    logp = np.log(p)
    close(F.cross_entropy(t(a), t(p)), -(p * logp).sum(1).mean())
    close(F.cross_entropy(t(a[0]), flambeau.tensor(2)), -logp[0, 2])
    assert F.cross_entropy(t(a), flambeau.tensor([-100] * 4)).isnan()
    assert F.cross_entropy(flambeau.zeros(0, 3), flambeau.zeros(0, dtype=flambeau.int64), reduction="sum").item() == 0
    big = flambeau.tensor([[1e4, 0.0], [0.0, -1e4]])
    assert F.cross_entropy(big, flambeau.tensor([0, 0])).item() == 0


def test_wrong_labels():
    x = flambeau.zeros(3, 5)
    for loss in (F.cross_entropy, F.nll_loss):
        with pytest.raises(IndexError, match="target 7 is no class"):
            loss(x, flambeau.tensor([0, 7, 1]))
        with pytest.raises(IndexError, match="target -1 is no class"):
            loss(x, flambeau.tensor([0, -1, 1]))
        with pytest.raises(ValueError, match="samples and target"):
            loss(x, flambeau.tensor([0, 1]))
        with pytest.raises(ValueError, match="reduction must be"):
            loss(x, flambeau.tensor([0, 1, 2]), reduction="average")
        with pytest.raises(RuntimeError, match="weight"):
            loss(x, flambeau.tensor([0, 1, 2]), flambeau.ones(4))
    with pytest.raises(RuntimeError, match="input must hold probabilities, from"):
        F.binary_cross_entropy(x + 2, x)
    with pytest.raises(ValueError, match="must be shaped as input"):
        F.binary_cross_entropy(x, flambeau.zeros(3))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_elementwise_losses(reduction):
    a, b = RNG.standard_normal((2, 3, 4))
    p, q = 1 / (1 + np.exp(-a)), 1 / (1 + np.exp(-b))
    w, pos = RNG.uniform(0.5, 2, (2, 4))
    d = np.abs(a - b)
    sign = np.where(np.arange(12).reshape(3, 4) % 3, 1.0, -1.0)
    cases = [
        (F.mse_loss(t(a), t(b), reduction=reduction), d * d),
        (F.l1_loss(t(a), t(b), reduction=reduction), d),
        (F.smooth_l1_loss(t(a), t(b), reduction=reduction, beta=0.7), np.where(d < 0.7, d * d / 1.4, d - 0.35)),
        (F.huber_loss(t(a), t(b), reduction=reduction, delta=0.7), np.where(d < 0.7, d * d / 2, 0.7 * (d - 0.35))),
        (F.binary_cross_entropy(t(p), t(q), t(w), reduction=reduction), -(q * np.log(p) + (1 - q) * np.log(1 - p)) * w),
        (F.binary_cross_entropy_with_logits(t(a), t(q), t(w), reduction=reduction, pos_weight=t(pos)),
         -(pos * q * np.log(p) + (1 - q) * np.log(1 - p)) * w),
        (F.kl_div(t(np.log(p)), t(q), reduction=reduction), q * (np.log(q) - np.log(p))),
        (F.soft_margin_loss(t(a), t(sign), reduction=reduction), np.log1p(np.exp(-sign * a))),
        (F.poisson_nll_loss(t(a), t(q), reduction=reduction), np.exp(a) - q * a),
        (F.gaussian_nll_loss(t(a), t(b), t(q), reduction=reduction), 0.5 * (np.log(q) + d * d / q)),
        (F.hinge_embedding_loss(t(a), t(sign), reduction=reduction), np.where(sign > 0, a, np.maximum(0, 1 - a))),
        (F.margin_ranking_loss(t(a), t(b), t(sign), 0.2, reduction=reduction), np.maximum(0, -sign * (a - b) + 0.2)),
    ]
    for found, expected in cases:
        close(found, reduced(expected, reduction))


def test_binary_cross_entropy_at_the_ends():
    x = flambeau.tensor([0.0, 1.0, 0.0, 1.0], requires_grad=True)
    y = flambeau.tensor([0.0, 1.0, 1.0, 0.0])
    loss = F.binary_cross_entropy(x, y, reduction="none")
    assert loss.tolist() == [0, 0, 100, 100]
    loss.sum().backward()
    assert x.grad.isfinite().all()
    z = flambeau.tensor([1e4, -1e4], requires_grad=True)
    loss = F.binary_cross_entropy_with_logits(z, flambeau.tensor([0.0, 1.0]), reduction="sum")
    assert loss.item() == 2e4
    loss.backward()
    assert z.grad.tolist() == [1, -1]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_second_derivatives(reduction):
    x = t(RNG.standard_normal((2, 3, 4))).requires_grad_()
    labels, weight = t(RNG.integers(0, 3, (2, 4))), t(RNG.uniform(0.5, 2, 3))

    def loss(v):
        return F.cross_entropy(v, labels, weight, ignore_index=1, reduction=reduction, label_smoothing=0.1)
    assert gradcheck(loss, (x,)) and gradgradcheck(loss, (x,))
    pair = (t(RNG.uniform(0.1, 0.9, (2, 3))).requires_grad_(), t(RNG.uniform(0.1, 0.9, (2, 3))).requires_grad_())
    for function in (F.binary_cross_entropy, F.binary_cross_entropy_with_logits, F.mse_loss):
        assert gradgradcheck(lambda a, b, f=function: f(a, b, reduction=reduction), pair)


def test_older_arguments_choose_the_reduction():
    a, b = flambeau.zeros(2), flambeau.ones(2)
    assert F.mse_loss(a, b, size_average=False).item() == 2
    assert F.mse_loss(a, b, reduce=False).tolist() == [1, 1]
    with pytest.warns(UserWarning, match="are broadcast"):
        F.mse_loss(a, flambeau.ones(1))


def test_empty_input():
    none = flambeau.zeros(0, dtype=flambeau.int64)
    assert F.cross_entropy(flambeau.zeros(0, 3), none).isnan()
    assert F.cross_entropy(flambeau.zeros(2, 3, 0), none.reshape(2, 0), reduction="none").shape == (2, 0)
    x = flambeau.zeros(2, 3, 0, requires_grad=True)
    F.cross_entropy(x, none.reshape(2, 0), reduction="sum").backward()
    assert x.grad.shape == x.shape
    with pytest.raises(IndexError, match="is no class"):
        F.cross_entropy(flambeau.zeros(3, 0), flambeau.zeros(3, dtype=flambeau.int64))


def test_l1_loss_of_integers():
    x, y = flambeau.tensor([1, -5, 3]), flambeau.tensor([4, 2, 3])
    found = F.l1_loss(x, y, reduction="none")
    assert found.dtype == flambeau.int64 and found.tolist() == [3, 7, 0]
    assert F.l1_loss(x, y, reduction="sum").item() == 10
    with pytest.raises(RuntimeError):
        F.l1_loss(x, y)


def test_cross_entropy_over_no_classes():
    nothing = flambeau.ones(5, 0)
    assert F.cross_entropy(nothing, nothing).isnan() and F.cross_entropy(nothing, nothing, label_smoothing=0.1).isnan()
    assert F.cross_entropy(nothing, nothing, reduction="sum").item() == 0


def test_ctc_lengths_of_another_dtype():
    x, targets = flambeau.zeros(5, 1, 3), flambeau.ones(1, 2, dtype=flambeau.int64)
    with pytest.raises(RuntimeError, match="integers"):
        F.ctc_loss(x, targets, flambeau.tensor([5.0]), flambeau.tensor([2]))
    with pytest.raises(TypeError, match="integers"):
        F.ctc_loss(x, targets, [5.0], [2])


def test_the_gradient_of_nll_loss_of_nothing():
    for shape in ((0, 3), (0, 3, 5), (2, 3, 0, 7)):
        x = flambeau.zeros(shape, requires_grad=True)
        F.nll_loss(x, flambeau.zeros(shape[0], *shape[2:], dtype=flambeau.int64)).backward()
        assert x.grad.shape == shape


def test_many_labels_as_integers():
    x, target = flambeau.randn(3, 5), flambeau.tensor([[1, 0, 0, 1, 1]] * 3)
    assert F.multilabel_soft_margin_loss(x, target) == F.multilabel_soft_margin_loss(x, target.float())


def test_a_loss_of_one_number_needs_a_dimension_of_classes():
    with pytest.raises(ValueError, match="at least 1 dimension"):
        F.nll_loss(flambeau.tensor(1.0), flambeau.tensor(0))


def test_one_label_of_one_class_with_and_without_a_dimension():
    for x in (flambeau.tensor(0.5), flambeau.tensor([0.5])):
        for label in (flambeau.tensor(0), flambeau.tensor([0])):
            assert F.multilabel_margin_loss(x, label, reduction="none").shape == ()
        with pytest.raises(RuntimeError, match="of one shape"):
            F.multilabel_margin_loss(x, flambeau.tensor([[0]]))


def test_whole_counts_leave_the_rates_dtype():
    rates, counts = flambeau.tensor([0.5, 1.0], dtype=flambeau.float16), flambeau.tensor([3, 4])
    loss = flambeau.nn.functional.poisson_nll_loss(rates, counts, full=True)
    assert loss.dtype == flambeau.float16
