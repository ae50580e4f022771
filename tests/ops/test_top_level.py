"""flambeau.X where its arguments differ from nn.functional.X's: the same numbers."""

import pytest

import flambeau
from flambeau.nn import functional as F

f64 = flambeau.float64


@pytest.fixture(autouse=True)
def seeded():
    flambeau.manual_seed(0)


def same(a, b):
    assert flambeau.allclose(a, b, equal_nan=True)


@pytest.mark.parametrize("number, reduction", [(0, "none"), (1, "mean"), (2, "sum")])
def test_losses(number, reduction):
    a, b, c = (flambeau.randn(4, 3, dtype=f64) for _ in range(3))
    signs = flambeau.tensor([1.0, -1.0, 1.0, -1.0], dtype=f64)
    same(flambeau.kl_div(a, b.softmax(1), number), F.kl_div(a, b.softmax(1), reduction=reduction))
    same(flambeau.binary_cross_entropy_with_logits(a, b.sigmoid(), None, None, number),
         F.binary_cross_entropy_with_logits(a, b.sigmoid(), reduction=reduction))
    same(flambeau.cosine_embedding_loss(a, b, signs, 0.1, number),
         F.cosine_embedding_loss(a, b, signs, 0.1, reduction=reduction))
    same(flambeau.hinge_embedding_loss(a[:, 0], signs, 1.0, number),
         F.hinge_embedding_loss(a[:, 0], signs, reduction=reduction))
    same(flambeau.margin_ranking_loss(a[:, 0], b[:, 0], signs, 0.2, number),
         F.margin_ranking_loss(a[:, 0], b[:, 0], signs, 0.2, reduction=reduction))
    same(flambeau.poisson_nll_loss(a, b.exp(), True, True, 1e-8, number),
         F.poisson_nll_loss(a, b.exp(), True, True, reduction=reduction))
    same(flambeau.triplet_margin_loss(a, b, c, reduction=number), F.triplet_margin_loss(a, b, c, reduction=reduction))


def test_unknown_reduction():
    with pytest.raises(ValueError, match="reduction"):
        flambeau.kl_div(flambeau.ones(2), flambeau.ones(2), 3)


def test_normalizations():
    x, w, b = flambeau.randn(4, 6, 5), flambeau.rand(6), flambeau.rand(6)
    mean, var = flambeau.zeros(6), flambeau.ones(6)
    mean2, var2 = mean.clone(), var.clone()
    same(flambeau.batch_norm(x, w, b, mean, var, True, 0.1, 1e-5, True),
         F.batch_norm(x, mean2, var2, w, b, True, 0.1, 1e-5))
    same(mean, mean2)
    same(flambeau.instance_norm(x, w, b, None, None, True, 0.1, 1e-5, False), F.instance_norm(x, weight=w, bias=b))
    made, mean, rest = flambeau.native_layer_norm(x, (5,), None, None, 1e-5)
    same(made, F.layer_norm(x, (5,)))
    same(made, (x - mean) * rest)
    made, mean, rest = flambeau.native_group_norm(x, w, b, 4, 6, 5, 3, 1e-5)
    same(made, F.group_norm(x, 3, w, b))
    assert mean.shape == rest.shape == (4, 3)


def test_embeddings():
    w, at = flambeau.randn(5, 3), flambeau.tensor([0, 4, 4, 2])
    same(flambeau.embedding(w, at), F.embedding(at, w))
    made, bags, sizes, _ = flambeau.embedding_bag(w, at, flambeau.tensor([0, 3]), mode=1)
    same(made, F.embedding_bag(at, w, flambeau.tensor([0, 3]), mode="mean"))
    assert bags.tolist() == [0, 0, 0, 1] and sizes.tolist() == [3, 1]
    short = flambeau.embedding_renorm_(w.clone(), at, 0.5, 2.0)
    assert short[4].norm().item() <= 0.5001 and flambeau.equal(short[1], w[1])


def test_dropouts_in_place():
    for name in ("dropout_", "alpha_dropout_", "feature_dropout_", "feature_alpha_dropout_"):
        x = flambeau.ones(2, 3, 4)
        made = getattr(flambeau, name)(x, 0.5, True)
        assert made is x and not flambeau.equal(x, flambeau.ones(2, 3, 4))
        assert flambeau.equal(getattr(flambeau, name)(flambeau.ones(2, 3), 0.5, False), flambeau.ones(2, 3))
    assert flambeau.feature_dropout(flambeau.ones(2, 3, 4), 0.5, True).amax(2).unique().numel() <= 2


def test_norms_and_others():
    x = flambeau.arange(12.0).reshape(3, 4)
    same(flambeau.norm_except_dim(x, 2, 1), x.norm(dim=0, keepdim=True))
    same(flambeau.norm_except_dim(x, 2, -1), x.norm())
    same(flambeau.frobenius_norm(x, (0, 1)), x.norm())
    values, indices = flambeau.adaptive_max_pool1d(x[None], 2)
    assert values.tolist() == [[[1, 3], [5, 7], [9, 11]]] and indices[0, 0].tolist() == [1, 3]
    y = flambeau.ones(2, requires_grad=True)
    assert not flambeau.detach(y).requires_grad and flambeau.get_device(y) == -1
    assert flambeau.is_same_size(x, x.clone()) and not flambeau.is_neg(x) and not flambeau.is_distributed(x)
    assert flambeau.resize_as_(flambeau.empty(0), x).shape == x.shape


def test_copies_of_names_in_functional():
    for name in ("conv_tbc", "pdist", "native_channel_shuffle"):
        assert getattr(F, name) is getattr(flambeau, name)


@pytest.mark.parametrize("number, reduction", [(0, "none"), (1, "mean"), (2, "sum")])
def test_losses_of_aten(number, reduction):
    aten = flambeau.ops.aten
    a, b, c = (flambeau.randn(4, 3, dtype=f64) for _ in range(3))
    signs, labels = flambeau.tensor([1.0, -1.0, 1.0], dtype=f64).expand(4, 3), flambeau.tensor([2, 0, 1, 1])
    for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
        same(getattr(aten, name)(a, b, number), getattr(F, name)(a, b, reduction=reduction))
    same(aten.soft_margin_loss.default(a, signs, number), F.soft_margin_loss(a, signs, reduction=reduction))
    same(aten.binary_cross_entropy.default(a.sigmoid(), b.sigmoid(), c.exp(), number),
         F.binary_cross_entropy(a.sigmoid(), b.sigmoid(), c.exp(), reduction=reduction))
    same(aten.nll_loss.default(a, labels, None, number, 1), F.nll_loss(a, labels, ignore_index=1, reduction=reduction))
    same(aten.multi_margin_loss.default(a, labels, 1, 0.5, None, number),
         F.multi_margin_loss(a, labels, margin=0.5, reduction=reduction))
    same(aten.multilabel_margin_loss.default(a, labels[:3].expand(4, 3).contiguous(), number),
         F.multilabel_margin_loss(a, labels[:3].expand(4, 3).contiguous(), reduction=reduction))
    probabilities, lengths = flambeau.randn(5, 2, 4, dtype=f64).log_softmax(-1), flambeau.tensor([5, 4])
    same(aten.ctc_loss.Tensor(probabilities, flambeau.tensor([[1, 2], [3, 1]]), lengths, flambeau.tensor([2, 1]), 0, number),
         F.ctc_loss(probabilities, flambeau.tensor([[1, 2], [3, 1]]), lengths, flambeau.tensor([2, 1]),
                    reduction=reduction))


def test_aten_takes_its_own_forms():
    aten = flambeau.ops.aten
    weight, x = flambeau.randn(5, 3), flambeau.randn(2, 3, 4, 4)
    assert flambeau.equal(aten.embedding.default(weight, flambeau.tensor([4, 0])), weight[[4, 0]])
    w, b, mean, var = (flambeau.rand(3) for _ in range(4))
    same(aten.batch_norm.default(x, w, b, mean, var, False, 0.1, 1e-5, False), F.batch_norm(x, mean, var, w, b))
    pooled, places = F.max_pool2d(x, 2, return_indices=True)
    same(aten.max_unpool2d.default(pooled, places, [4, 4]), F.max_unpool2d(pooled, places, 2))
