"""nn.functional: PyTorch's names are there, forms that are not operators, and agreement with the layers."""

import itertools
import math

import pytest

import flambeau
from flambeau import nn
from flambeau.nn import functional as F

NAMES = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d",
    "adaptive_max_pool3d", "alpha_dropout", "avg_pool1d", "avg_pool2d", "avg_pool3d", "batch_norm", "bilinear",
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "celu", "celu_", "channel_shuffle", "conv1d",
    "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cosine_embedding_loss",
    "cosine_similarity", "cross_entropy", "dropout", "dropout1d", "dropout2d", "dropout3d", "elu", "elu_",
    "embedding", "feature_alpha_dropout", "fold", "gaussian_nll_loss", "gelu", "glu", "group_norm", "gumbel_softmax",
    "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "hardtanh_", "hinge_embedding_loss", "huber_loss",
    "instance_norm", "interpolate", "kl_div", "l1_loss", "layer_norm", "leaky_relu", "leaky_relu_", "linear",
    "local_response_norm", "log_softmax", "logsigmoid", "lp_pool1d", "lp_pool2d", "lp_pool3d", "margin_ranking_loss",
    "max_pool1d", "max_pool2d", "max_pool3d", "max_pool2d_with_indices", "max_unpool1d", "max_unpool2d",
    "max_unpool3d", "mish", "mse_loss", "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss",
    "nll_loss", "normalize", "one_hot", "pad", "pairwise_distance", "pixel_shuffle", "pixel_unshuffle",
    "poisson_nll_loss", "prelu", "relu", "relu6", "relu_", "rms_norm", "rrelu", "rrelu_",
    "scaled_dot_product_attention", "selu", "selu_", "sigmoid", "silu", "smooth_l1_loss", "soft_margin_loss",
    "softmax", "softmin", "softplus", "softshrink", "softsign", "tanh", "tanhshrink", "threshold", "threshold_",
    "triplet_margin_loss", "triplet_margin_with_distance_loss", "unfold", "ctc_loss",
    "affine_grid", "fractional_max_pool2d", "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices", "grid_sample", "grouped_mm", "has_torch_function", "has_torch_function_unary",
    "has_torch_function_variadic", "linear_cross_entropy", "multi_head_attention_forward", "scaled_addmm",
    "scaled_addmm_", "scaled_grouped_mm", "scaled_mm", "ScalingType", "SwizzleType", "upsample", "upsample_bilinear",
    "upsample_nearest",
]  # fmt: skip


def test_every_name_is_there():
    assert [name for name in NAMES if not callable(getattr(F, name, None))] == []


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
def test_softmax_without_a_dim_warns_and_chooses_as_pytorch(name):
    function = getattr(F, name)
    for shape, dim in (((3,), 0), ((2, 3), 1), ((2, 3, 4), 0), ((1, 2, 3, 4), 1)):
        x = flambeau.randn(shape)
        with pytest.warns(UserWarning, match="dim is missing"):
            assert flambeau.equal(function(x), function(x, dim))
    assert function(flambeau.zeros(2), dim=0, dtype=flambeau.float64).dtype == flambeau.float64


ACTIVATIONS = [
    ("relu", ()), ("relu6", ()), ("elu", (0.5,)), ("selu", ()), ("celu", (0.5,)), ("silu", ()), ("mish", ()),
    ("hardswish", ()), ("hardsigmoid", ()), ("leaky_relu", (0.2,)), ("hardtanh", (-0.5, 0.7)),
    ("threshold", (0.1, 3.0)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args"), ACTIVATIONS, ids=[name for name, _ in ACTIVATIONS])
def test_in_place_forms(name, args):
    function = getattr(F, name)
    x = flambeau.linspace(-4, 4, 9)
    expected = function(x, *args)
    assert flambeau.equal(x, flambeau.linspace(-4, 4, 9))
    y = x.clone()
    assert function(y, *args, inplace=True) is y and flambeau.allclose(y, expected)
    grads = []
    for inplace in (False, True):
        leaf = flambeau.linspace(-4, 4, 9).requires_grad_()
        function(leaf * 1, *args, inplace=inplace).square().sum().backward()
        grads.append(leaf.grad)
    assert flambeau.allclose(*grads, atol=1e-6)
    if hasattr(F, name + "_"):
        z = x.clone()
        assert getattr(F, name + "_")(z, *args) is z and flambeau.allclose(z, expected)


def test_in_place_on_a_leaf_is_refused():
    leaf = flambeau.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        F.relu_(leaf)


def test_hardtanh_needs_an_interval():
    with pytest.raises(ValueError, match="min_val"):
        F.hardtanh(flambeau.zeros(1), 1.0, -1.0)


def test_rrelu_in_training_draws_slopes_in_range():
    x = -flambeau.ones(100)
    slopes = -F.rrelu(x, 0.1, 0.3, training=True)
    low, high = slopes.min().item(), slopes.max().item()
    assert low >= 0.1 - 1e-6 and high <= 0.3 + 1e-6 and slopes.std().item() > 0.01
    assert flambeau.allclose(F.rrelu(x, 0.1, 0.3), x * 0.2)


LAYERS = [
    (lambda: nn.MaxPool2d(2, padding=1), (1, 2, 5, 5), lambda x: F.max_pool2d(x, 2, padding=1)),
    (lambda: nn.MaxPool1d(2, return_indices=True), (1, 2, 6), lambda x: F.max_pool1d(x, 2, return_indices=True)),
    (lambda: nn.AvgPool2d(2, count_include_pad=False, padding=1), (1, 2, 5, 5),
     lambda x: F.avg_pool2d(x, 2, padding=1, count_include_pad=False)),
    (lambda: nn.AvgPool1d(2, ceil_mode=True), (1, 2, 5), lambda x: F.avg_pool1d(x, 2, ceil_mode=True)),
    (lambda: nn.AdaptiveAvgPool2d((2, None)), (1, 2, 5, 3), lambda x: F.adaptive_avg_pool2d(x, (2, None))),
    (lambda: nn.AdaptiveMaxPool2d(2, return_indices=True), (1, 2, 5, 3),
     lambda x: F.adaptive_max_pool2d(x, 2, return_indices=True)),
    (lambda: nn.LPPool2d(2, 2), (1, 2, 4, 4), lambda x: F.lp_pool2d(x, 2.0, 2)),
    (lambda: nn.Softplus(2, 10), (5,), lambda x: F.softplus(x, 2, 10)),
    (lambda: nn.GELU("tanh"), (5,), lambda x: F.gelu(x, approximate="tanh")),
    (lambda: nn.GLU(0), (4, 3), lambda x: F.glu(x, 0)),
    (lambda: nn.Softmax2d(), (1, 3, 2, 2), lambda x: F.softmax(x, 1)),
    (lambda: nn.PReLU(3), (2, 3), lambda x: F.prelu(x, flambeau.full((3,), 0.25))),
    (lambda: nn.LocalResponseNorm(2), (1, 4, 3, 3), lambda x: F.local_response_norm(x, 2)),
    (lambda: nn.GroupNorm(2, 4), (2, 4, 3), lambda x: F.group_norm(x, 2)),
    (lambda: nn.LayerNorm((3, 2)), (4, 3, 2), lambda x: F.layer_norm(x, (3, 2))),
    (lambda: nn.RMSNorm(3), (4, 3), lambda x: F.rms_norm(x, (3,))),
    (lambda: nn.Unfold(2, padding=1), (1, 2, 4, 4), lambda x: F.unfold(x, 2, padding=1)),
    (lambda: nn.Fold((4, 4), 2, stride=2), (1, 8, 4), lambda x: F.fold(x, (4, 4), 2, stride=2)),
    (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (1, 2, 3, 3),
     lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")),
    (lambda: nn.ChannelShuffle(2), (1, 4, 2, 2), lambda x: F.channel_shuffle(x, 2)),
    (lambda: nn.ZeroPad2d((1, 2, 0, 1)), (1, 2, 3, 3), lambda x: F.pad(x, (1, 2, 0, 1))),
    (lambda: nn.CircularPad1d(2), (1, 2, 3), lambda x: F.pad(x, (2, 2), "circular")),
    (lambda: nn.Unflatten(1, (2, 2)), (3, 4), lambda x: x.reshape(3, 2, 2)),
    (lambda: nn.Flatten(0, 1), (3, 4, 2), lambda x: x.reshape(12, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("make", "shape", "function"), LAYERS)
def test_layers_apply_their_function(make, shape, function):
    x = flambeau.randn(shape)
    result, expected = make()(x), function(x)
    if isinstance(expected, tuple):
        assert all(flambeau.equal(a, b) for a, b in zip(result, expected, strict=True))
    else:
        assert flambeau.equal(result, expected)


def test_unpooling_puts_values_back():
    x = flambeau.randn(2, 3, 4, 4)
    values, indices = nn.MaxPool2d(2, return_indices=True)(x)
    back = nn.MaxUnpool2d(2)(values, indices)
    assert back.shape == x.shape
    assert flambeau.equal(nn.MaxPool2d(2)(back).clamp(min=0), values.clamp(min=0))


@pytest.mark.parametrize(
    "kind", ["Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"]
)
def test_dropout_layers_only_act_in_training(kind):
    layer = getattr(nn, kind)(0.5)
    x = flambeau.ones(4, 8, *{"Dropout1d": (2,), "Dropout3d": (2, 2, 2)}.get(kind, (2, 2)))
    assert not flambeau.equal(layer(x), x)
    assert flambeau.equal(layer.eval()(x), x)


@pytest.mark.parametrize("name, dims", [("dropout2d", 2), ("dropout2d", 3), ("dropout2d", 5), ("dropout3d", 3)])
def test_dropout_of_channels_warns_of_other_dimensions(name, dims):
    with pytest.warns(UserWarning, match=f"{name}: expected .* got {dims} dimensions"):
        getattr(F, name)(flambeau.ones((2,) * dims))


LOSSES = [
    (nn.L1Loss, (2, 3), "values", "l1_loss"), (nn.MSELoss, (2, 3), "values", "mse_loss"),
    (nn.SmoothL1Loss, (2, 3), "values", "smooth_l1_loss"), (nn.HuberLoss, (2, 3), "values", "huber_loss"),
    (nn.CrossEntropyLoss, (4, 3), "classes", "cross_entropy"), (nn.NLLLoss, (4, 3), "classes", "nll_loss"),
    (nn.BCEWithLogitsLoss, (2, 3), "bits", "binary_cross_entropy_with_logits"),
    (nn.KLDivLoss, (2, 3), "shares", "kl_div"), (nn.PoissonNLLLoss, (2, 3), "bits", "poisson_nll_loss"),
    (nn.HingeEmbeddingLoss, (5,), "signs", "hinge_embedding_loss"),
    (nn.SoftMarginLoss, (5,), "signs", "soft_margin_loss"),
    (nn.MultiLabelSoftMarginLoss, (2, 3), "bits", "multilabel_soft_margin_loss"),
    (nn.MultiMarginLoss, (4, 3), "classes", "multi_margin_loss"),
]  # fmt: skip
TARGETS = {
    "values": lambda shape: flambeau.randn(shape),
    "classes": lambda shape: flambeau.randint(0, shape[1], shape[:1]),
    "bits": lambda shape: flambeau.randint(0, 2, shape).float(),
    "signs": lambda shape: flambeau.randint(0, 2, shape) * 2.0 - 1,
    "shares": lambda shape: flambeau.rand(shape),
}


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(("kind", "shape", "target", "name"), LOSSES, ids=[row[0].__name__ for row in LOSSES])
def test_loss_layers(kind, shape, target, name, reduction):
    x, y = flambeau.randn(shape, requires_grad=True), TARGETS[target](shape)
    loss = kind(reduction=reduction)(x, y)
    assert flambeau.equal(loss, getattr(F, name)(x, y, reduction=reduction))
    if reduction != "none":
        loss.backward()
        assert x.grad.shape == x.shape


def test_losses_of_several_inputs():
    a, b, c = (flambeau.randn(4, 3) for _ in range(3))
    signs = flambeau.tensor([1.0, -1.0, 1.0, -1.0])
    close = flambeau.allclose
    assert close(nn.CosineEmbeddingLoss(0.1)(a, b, signs), F.cosine_embedding_loss(a, b, signs, margin=0.1))
    first, second = a[:, 0], b[:, 0]
    assert close(nn.MarginRankingLoss(0.5)(first, second, signs), F.margin_ranking_loss(first, second, signs, 0.5))
    assert close(nn.TripletMarginLoss(2.0)(a, b, c), F.triplet_margin_loss(a, b, c, margin=2.0))
    far = nn.TripletMarginWithDistanceLoss(distance_function=lambda x, y: (x - y).abs().sum(-1))
    expected = ((a - b).abs().sum(-1) - (a - c).abs().sum(-1) + 1).clamp(min=0).mean()
    assert close(far(a, b, c), expected)
    assert close(nn.GaussianNLLLoss()(a, b, c.square() + 1), F.gaussian_nll_loss(a, b, c.square() + 1))
    assert close(nn.CosineSimilarity()(a, b), F.cosine_similarity(a, b))
    assert close(nn.PairwiseDistance(1, keepdim=True)(a, b), F.pairwise_distance(a, b, 1.0, keepdim=True))
    assert close(nn.BCELoss()(a.sigmoid(), signs.clamp(min=0).unsqueeze(1).expand(4, 3)),
                 nn.BCEWithLogitsLoss()(a, signs.clamp(min=0).unsqueeze(1).expand(4, 3)))  # fmt: skip


def test_weighted_losses():
    x, y = flambeau.randn(4, 3), flambeau.tensor([0, 2, 1, -100])
    weight = flambeau.tensor([1.0, 2.0, 3.0])
    loss = nn.CrossEntropyLoss(weight, label_smoothing=0.1)
    assert list(loss.state_dict()) == ["weight"]
    assert math.isfinite(loss(x, y).item())
    plain = nn.CrossEntropyLoss(weight, reduction="none")(x, y)
    assert flambeau.allclose(nn.CrossEntropyLoss(weight)(x, y), plain.sum() / (1 + 3 + 2))


def test_ctc_loss_is_pytorchs():
    flambeau.manual_seed(0)
    log_probs = flambeau.randn(6, 2, 4, dtype=flambeau.float64).log_softmax(-1)
    targets, inputs, lengths = flambeau.tensor([[1, 2, 2], [3, 1, 0]]), (6, 5), (3, 2)
    paths = ctc_by_enumeration(log_probs, targets, inputs, lengths)
    loss = nn.CTCLoss(reduction="none")(log_probs, targets, inputs, lengths)
    assert loss.tolist() == pytest.approx(paths, rel=1e-9)
    joined = F.ctc_loss(log_probs, flambeau.tensor([1, 2, 2, 3, 1]), flambeau.tensor(inputs), lengths)
    assert joined.item() == pytest.approx((paths[0] / 3 + paths[1] / 2) / 2, rel=1e-9)
    single = F.ctc_loss(log_probs[:, 0], targets[0], flambeau.tensor(6), flambeau.tensor(3), reduction="none")
    assert single.shape == () and single.item() == pytest.approx(paths[0], rel=1e-9)
    short = {"input_lengths": (3, 3), "target_lengths": lengths, "reduction": "none"}
    assert F.ctc_loss(log_probs, targets, **short)[0].item() == math.inf
    assert F.ctc_loss(log_probs, targets, **short, zero_infinity=True)[0].item() == 0


def ctc_by_enumeration(log_probs, targets, inputs, lengths, blank=0):
    """-log of the summed probability of every path that collapses to the target."""
    result = []
    for k, (steps, size) in enumerate(zip(inputs, lengths, strict=True)):
        wanted, total = targets[k].tolist()[:size], 0.0
        rows = log_probs[:steps, k].tolist()
        for path in itertools.product(range(log_probs.shape[2]), repeat=steps):
            collapsed = [label for label, _ in itertools.groupby(path) if label != blank]
            if collapsed == wanted:
                total += math.exp(sum(row[label] for row, label in zip(rows, path, strict=True)))
        result.append(-math.log(total))
    return result


def test_ctc_loss_refuses_wrong_lengths():
    log_probs, targets = flambeau.randn(6, 2, 4).log_softmax(-1), flambeau.tensor([[1, 2, 2], [3, 1, 0]])
    for inputs, lengths, text in (((7, 5), (3, 2), "between 0 and 6"), ((6, 5), (4, 2), "longest of target_lengths"),
                                  ((6,), (3, 2), "must be 2 integers")):  # fmt: skip
        with pytest.raises(RuntimeError, match=text):
            F.ctc_loss(log_probs, targets, inputs, lengths)


def test_gumbel_softmax_draws_pytorchs_numbers():
    flambeau.manual_seed(0)
    x = flambeau.randn(2, 3).requires_grad_()
    flambeau.manual_seed(0)
    soft = F.gumbel_softmax(x, tau=0.7)
    assert soft[0].tolist() == pytest.approx([0.722396731376648, 0.23482532799243927, 0.04277802258729935], rel=1e-5)
    hard = F.gumbel_softmax(x, hard=True)
    assert sorted(hard[0].tolist()) == [0, 0, 1]
    (hard * flambeau.arange(3.0)).sum().backward()
    assert x.grad.abs().sum().item() > 0


def test_ctc_loss_passes_pytorchs_gradient_to_logits():
    flambeau.manual_seed(0)
    logits = flambeau.randn(6, 2, 4, dtype=flambeau.float64, requires_grad=True)
    targets = flambeau.tensor([[1, 2, 2], [3, 1, 0]])
    assert flambeau.autograd.gradcheck(
        lambda x: F.ctc_loss(x.log_softmax(-1), targets, (6, 5), (3, 2), reduction="none"), (logits,))
    loss = F.ctc_loss(logits.log_softmax(-1), targets, (3, 5), (3, 2), reduction="sum", zero_infinity=True)
    loss.backward()
    assert not logits.grad[:, 0].any() and logits.grad[:5, 1].any() and not logits.grad[5:].any()


@pytest.mark.parametrize("dims", [2, 3])
def test_fractional_max_pool(dims):
    pool = getattr(F, f"fractional_max_pool{dims}d")
    flambeau.manual_seed(0)
    x = flambeau.randn(2, 3, *(9, 8, 7)[:dims], requires_grad=True)
    values, places = pool(x, 2, output_size=(4, 5, 3)[:dims], return_indices=True)
    assert values.shape == (2, 3, *(4, 5, 3)[:dims])
    assert flambeau.equal(x.flatten(-dims).gather(-1, places.flatten(-dims)), values.flatten(-dims))
    values.sum().backward()
    assert x.grad.sum() == values.numel()
    samples = flambeau.full((2, 3, dims), 0.5)
    fixed = pool(x, 2, output_ratio=0.5, _random_samples=samples)
    assert flambeau.equal(fixed, pool(x, 2, output_ratio=0.5, _random_samples=samples))
    layer = getattr(nn, f"FractionalMaxPool{dims}d")(2, output_ratio=0.5, _random_samples=samples)
    assert list(layer.state_dict()) == ["_random_samples"] and flambeau.equal(layer(x), fixed)


def test_fractional_max_pool_refuses():
    x = flambeau.zeros(1, 1, 6, 6)
    with pytest.raises(ValueError, match="the size of the result is missing"):
        F.fractional_max_pool2d(x, 2)
    with pytest.raises(RuntimeError, match="do not fit"):
        F.fractional_max_pool2d(x, 2, output_size=6)
    with pytest.raises(ValueError, match="both set the size of the result"):
        nn.FractionalMaxPool2d(2, output_size=2, output_ratio=0.5)
    with pytest.raises(ValueError, match="output_ratio must be above"):
        nn.FractionalMaxPool3d(2, output_ratio=1.5)


def test_losses_refuse_what_would_broadcast():
    x = flambeau.randn(3, 4)
    for call, error in (
        (lambda: F.mse_loss(x, x, weight=flambeau.ones(4)), ValueError),
        (lambda: F.triplet_margin_loss(x, x[0], x[0]), RuntimeError),
        (lambda: F.margin_ranking_loss(x, x, flambeau.ones(3)), RuntimeError),
        (lambda: F.cosine_embedding_loss(x, x[0], flambeau.ones(3)), RuntimeError),
        (lambda: F.multilabel_soft_margin_loss(x, x[0]), RuntimeError),
    ):
        with pytest.raises(error):
            call()
    assert flambeau.isfinite(F.soft_margin_loss(x, x > 0))


def test_overrides_are_seen_and_products_for_gpus_say_so():
    class Own(flambeau.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "own"

    plain, own = flambeau.ones(1), flambeau.ones(1).as_subclass(Own)
    assert F.has_torch_function((plain, own)) and F.has_torch_function_unary(own)
    assert F.has_torch_function_variadic(plain, own) and not F.has_torch_function_variadic(plain, plain)
    for name in ("scaled_addmm", "scaled_addmm_"):
        with pytest.raises(NotImplementedError, match=name):
            getattr(F, name)(plain, plain)


@pytest.mark.parametrize("nd", [1, 2, 3])
def test_gradients_of_convolutions_by_name(nd):
    """flambeau.nn.grad: those that autograd finds, and differentiable themselves."""
    flambeau.manual_seed(0)
    x = flambeau.randn(2, 4, *(5,) * nd, dtype=flambeau.float64, requires_grad=True)
    w = flambeau.randn(6, 2, *(3,) * nd, dtype=flambeau.float64, requires_grad=True)
    form = 2, 1, 1, 2
    y = getattr(F, f"conv{nd}d")(x, w, None, *form)
    g = flambeau.randn(y.shape, dtype=flambeau.float64, requires_grad=True)
    of_input, of_weight = (getattr(flambeau.nn.grad, f"conv{nd}d_{name}") for name in ("input", "weight"))
    wanted = flambeau.autograd.grad(y, (x, w), g)
    assert flambeau.equal(of_input(x.shape, w, g, *form), wanted[0])
    assert flambeau.equal(of_weight(x, w.shape, g, *form), wanted[1])
    assert flambeau.autograd.gradcheck(lambda w, g: of_input(x.shape, w, g, *form), (w, g))
    assert flambeau.autograd.gradcheck(lambda x, g: of_weight(x, w.shape, g, *form), (x, g))
