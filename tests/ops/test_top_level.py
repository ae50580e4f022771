"""flambeau.X where its arguments differ from nn.functional.X's: the same numbers."""

import pytest

import flambeau
from flambeau.nn import functional as F

f64 = flambeau.float64
aten = flambeau.ops.aten


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
    targets, sizes = flambeau.tensor([[1, 2], [3, 1]]), flambeau.tensor([2, 1])
    same(aten.ctc_loss.Tensor(probabilities, targets, lengths, sizes, 0, number),
         F.ctc_loss(probabilities, targets, lengths, sizes, reduction=reduction))


def test_aten_takes_its_own_forms():
    weight, x = flambeau.randn(5, 3), flambeau.randn(2, 3, 4, 4)
    assert flambeau.equal(aten.embedding.default(weight, flambeau.tensor([4, 0])), weight[[4, 0]])
    w, b, mean, var = (flambeau.rand(3) for _ in range(4))
    same(aten.batch_norm.default(x, w, b, mean, var, False, 0.1, 1e-5, False), F.batch_norm(x, mean, var, w, b))
    pooled, places = F.max_pool2d(x, 2, return_indices=True)
    same(aten.max_unpool2d.default(pooled, places, [4, 4]), F.max_unpool2d(pooled, places, 2))


def images():
    return flambeau.randn(2, 3, 4, 4)


FORMS = {
    "softmax": lambda x: (aten._softmax.default(x, 1, False), x.softmax(1)),
    "log_softmax": lambda x: (aten._log_softmax.default(x, 1, False), x.log_softmax(1)),
    "adaptive": lambda x: (aten._adaptive_avg_pool2d.default(x, [2, 1]), F.adaptive_avg_pool2d(x, (2, 1))),
    "adaptive max": lambda x: (aten.adaptive_max_pool2d.default(x, [2, 1])[0], F.adaptive_max_pool2d(x, (2, 1))),
    "nearest": lambda x: (aten.upsample_nearest2d.default(x, [8, 6]), F.interpolate(x, (8, 6))),
    "factors": lambda x: (aten.upsample_nearest2d.vec(x, None, [2.0, 3.0]), F.interpolate(x, scale_factor=(2, 3))),
    "bilinear": lambda x: (aten.upsample_bilinear2d.vec(x, [8, 6], True, None),
                           F.interpolate(x, (8, 6), mode="bilinear", align_corners=True)),
    "reflect": lambda x: (aten.reflection_pad2d.default(x, [1, 2, 0, 1]), F.pad(x, (1, 2, 0, 1), "reflect")),
    "replicate": lambda x: (aten.replication_pad2d.default(x, [1, 2, 0, 1]), F.pad(x, (1, 2, 0, 1), "replicate")),
    "index": lambda x: (aten._unsafe_index.Tensor(x, [None, flambeau.tensor([2, 0])]), x[:, [2, 0]]),
    "put": lambda x: (aten._unsafe_index_put.default(x, [flambeau.tensor([1])], x[:1], True),
                      x.index_put((flambeau.tensor([1]),), x[:1], accumulate=True)),
    "copy": lambda x: (aten.copy.default(x.double(), x[0]), x[0].double().expand(2, 3, 4, 4)),
    "view": lambda x: (aten._unsafe_view.default(x, [6, 16]), x.view(6, 16)),
    "lift": lambda x: (aten.lift_fresh_copy.default(x), x),
    "norm": lambda x: (aten.linalg_vector_norm.default(x, 3, [1]), flambeau.linalg.vector_norm(x, 3, 1)),
    "batch norm": lambda x: (aten._native_batch_norm_legit_no_training.default(x, None, None, x[0, :, 0, 0],
                                                                               x[0, :, 0, 0] ** 2, 0.1, 1e-5)[0],
                             F.batch_norm(x, x[0, :, 0, 0], x[0, :, 0, 0] ** 2)),
    "cross entropy": lambda x: (aten.cross_entropy_loss.default(x, flambeau.ones(2, 4, 4).long(), None, 2),
                                F.cross_entropy(x, flambeau.ones(2, 4, 4).long(), reduction="sum")),
    "nll": lambda x: (aten.nll_loss2d_forward.default(x, flambeau.ones(2, 4, 4).long(), None, 1, -100)[0],
                      F.nll_loss(x, flambeau.ones(2, 4, 4).long())),
}
#: the gradient by name, and the function whose it is
GRADIENTS = {
    "mse": (lambda g, x: aten.mse_loss_backward.default(g, x, x * 2 + 1, 1),
            lambda x: F.mse_loss(x, (x * 2 + 1).detach())),
    "glu": (lambda g, x: aten.glu_backward.default(g, x, 2), lambda x: F.glu(x, 2)),
    "avg pool": (lambda g, x: aten.avg_pool2d_backward.default(g, x, [2, 2], [], [1, 1], False, False, None),
                 lambda x: F.avg_pool2d(x, 2, padding=1, count_include_pad=False)),
    "adaptive": (lambda g, x: aten._adaptive_avg_pool2d_backward.default(g, x), lambda x: F.adaptive_avg_pool2d(x, 2)),
    "max pool": (lambda g, x: aten.max_pool2d_with_indices_backward.default(
        g, x, [2, 2], [2, 2], [0, 0], [1, 1], False, F.max_pool2d(x, 2, return_indices=True)[1]),
        lambda x: F.max_pool2d(x, 2)),
    "nll": (lambda g, x: aten.nll_loss2d_backward.default(g, x, flambeau.ones(2, 4, 4).long(), None, 1, -100,
                                                              flambeau.tensor(32.0)),
            lambda x: F.nll_loss(x, flambeau.ones(2, 4, 4).long())),
    "layer norm": (lambda g, x: aten.native_layer_norm_backward.default(
        g, x, [4, 4], x.mean((2, 3), True), 1 / (x.var((2, 3), False, keepdim=True) + 1e-5).sqrt(), None, None,
        [True, False, False])[0], lambda x: F.layer_norm(x, (4, 4))),
    "batch norm": (lambda g, x: aten.native_batch_norm_backward.default(
        g, x, None, None, None, x.mean((0, 2, 3)), 1 / (x.var((0, 2, 3), False) + 1e-5).sqrt(), True, 1e-5,
        [True, False, False])[0], lambda x: F.batch_norm(x, None, None, training=True)),
}


@pytest.mark.parametrize("name", FORMS)
def test_what_only_aten_has(name):
    mine, other = FORMS[name](images())
    assert mine.dtype == other.dtype and mine.shape == other.shape
    same(mine, other)


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_by_their_names_in_aten(name):
    by_name, function = GRADIENTS[name]
    x = images().requires_grad_()
    y = function(x)
    g = flambeau.randn(y.shape)
    expected, = flambeau.autograd.grad(y, x, g)
    assert flambeau.allclose(by_name(g, x.detach()), expected, atol=1e-5)


def test_losses_of_the_top_level_are_not_reduced_by_themselves():
    x, sign = flambeau.rand(2, 3), flambeau.tensor([1., -1.])
    assert flambeau.kl_div(x, x).shape == flambeau.binary_cross_entropy_with_logits(x, x).shape == (2, 3)
    assert flambeau.hinge_embedding_loss(x, x).shape == (2, 3)
    assert flambeau.cosine_embedding_loss(x, x, sign).shape == flambeau.margin_ranking_loss(sign, sign, sign).shape
    assert flambeau.triplet_margin_loss(x, x, x).shape == (2,)


def test_old_forms_of_moments_are_told_from_mistakes():
    x = flambeau.rand(3, 4)
    assert x.std(0, False).shape == (4,) and x.var((0, 1), True).shape == ()
    for wrong in (lambda: x.std(0, 1), lambda: x.var(0, unbiased=True, correction=1)):
        with pytest.raises(TypeError, match="unbiased"):
            wrong()


def test_a_seed_may_be_a_text_of_digits():
    assert flambeau.manual_seed(" 12 ").initial_seed() == 12
    with pytest.raises(ValueError, match="manual_seed"):
        flambeau.manual_seed("x")


def test_the_memory_of_a_parameter_may_be_set_without_grad():
    p = flambeau.nn.Parameter(flambeau.ones(2))
    with flambeau.no_grad():
        p.set_(flambeau.zeros(3))
    assert p.shape == (3,) and p.requires_grad and p.is_leaf
    with pytest.raises(RuntimeError, match="no_grad"):
        p.set_(flambeau.zeros(2))


def test_norm_except_dim_of_a_vector_is_that_of_each_number():
    v = flambeau.tensor([3.0, -4.0])
    assert flambeau.norm_except_dim(v).tolist() == [3, 4]
    assert flambeau.norm_except_dim(v, 2, -1) == 5
    assert flambeau.norm_except_dim(flambeau.ones(2, 3, 8), 1, 1).tolist() == [[[16]] * 3]
    assert flambeau.norm_except_dim(flambeau.ones(0, 3)).shape == (0, 1)
