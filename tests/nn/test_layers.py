"""Layers against PyTorch's: repr, names, shapes and initial values for seed 0 (golden_layers.json)."""

import json
from pathlib import Path

import pytest

import flambeau
from flambeau import nn

ROWS = json.loads(Path(__file__).with_name("golden_layers.json").read_text())


@pytest.mark.parametrize("row", ROWS, ids=[row["call"] for row in ROWS])
def test_layer_is_pytorchs(row):
    flambeau.manual_seed(0)
    layer = eval(row["call"], {"nn": nn})
    assert repr(layer) == row["repr"]
    state = layer.state_dict()
    assert list(state) == list(row["state"])
    for name, expected in row["state"].items():
        values = state[name]
        flat = values.flatten().tolist()
        assert list(values.shape) == expected["shape"]
        assert flat[:4] == pytest.approx(expected["first"], rel=1e-6, abs=1e-7)
        assert flat[-1] == pytest.approx(expected["last"], rel=1e-6, abs=1e-7)
        assert sum(flat) == pytest.approx(expected["sum"], rel=1e-5, abs=1e-5)


def test_every_layer_is_shown_and_takes_device_and_dtype():
    layer = nn.Linear(2, 3, device="meta", dtype=flambeau.float64)
    assert layer.weight.device.type == "meta" and layer.bias.dtype == flambeau.float64
    assert nn.Conv2d(1, 2, 3, dtype=flambeau.bfloat16).weight.dtype == flambeau.bfloat16


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: nn.Conv2d(3, 4, 3, groups=2), ValueError, "in_channels=3 cannot be divided into groups="),
        (lambda: nn.Conv2d(4, 3, 3, groups=2), ValueError, "out_channels=3 cannot be divided into groups="),
        (lambda: nn.Conv2d(4, 4, 3, groups=0), ValueError, "must be positive"),
        (lambda: nn.Conv2d(4, 4, 3, padding="same", stride=2), ValueError, "needs stride"),
        (lambda: nn.Conv2d(4, 4, 3, padding="sane"), ValueError, "padding must be a number, numbers"),
        (lambda: nn.Conv2d(4, 4, 3, padding_mode="mirror"), ValueError, "padding_mode must be"),
        (lambda: nn.ConvTranspose2d(4, 4, 3, padding_mode="reflect"), ValueError, "padding_mode must be"),
        (lambda: nn.Dropout(1.5), ValueError, "between 0 and 1"),
        (lambda: nn.GroupNorm(3, 4), ValueError, "cannot be divided into num_groups="),
        (lambda: nn.Embedding(3, 4, padding_idx=3), AssertionError, "padding_idx"),
        (lambda: nn.BatchNorm2d(3)(flambeau.zeros(2, 3)), ValueError, "expected 4D input"),
        (lambda: nn.BatchNorm1d(3)(flambeau.zeros(3)), ValueError, "expected 2D or 3D input"),
        (lambda: nn.Bilinear(0, 1, 1), ValueError, "_features must be positive"),
        (lambda: nn.MultiMarginLoss(p=3), ValueError, "p must be"),
        (lambda: nn.TripletMarginLoss(margin=0), ValueError, "margin"),
        (lambda: nn.Unflatten("a", (1, 2)), TypeError, "Unflatten"),
    ],
)
def test_bad_arguments(make, error, text):
    with pytest.raises(error, match=text):
        make()


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("padding", [1, "same"])
def test_convolution_padding_modes_pad_first(dims, mode, padding):
    conv = getattr(nn, f"Conv{dims}d")(2, 3, 3, padding=padding, padding_mode=mode)
    plain = getattr(nn, f"Conv{dims}d")(2, 3, 3)
    plain.load_state_dict(conv.state_dict())
    x = flambeau.randn(1, 2, *(4,) * dims)
    expected = plain(nn.functional.pad(x, (1, 1) * dims, mode=mode))
    assert flambeau.allclose(conv(x), expected, atol=1e-6)


def test_even_kernels_pad_same_more_on_the_right():
    conv = nn.Conv1d(1, 1, 4, padding="same", padding_mode="circular")
    assert conv(flambeau.randn(1, 1, 6)).shape == (1, 1, 6)
    assert conv._edges == (1, 2)


def test_transposed_convolution_reaches_every_output_size():
    layer = nn.ConvTranspose2d(2, 3, 3, stride=2)
    x = flambeau.randn(1, 2, 4, 4)
    for size in (9, 10):
        assert layer(x, output_size=(size, size)).shape == (1, 3, size, size)
        assert layer(x, output_size=(1, 3, size, size)).shape == (1, 3, size, size)
    with pytest.raises(ValueError, match="cannot come from input of size"):
        layer(x, output_size=(11, 11))
    with pytest.raises(ValueError, match="has 2 or 4 entries"):
        layer(x, output_size=(9,))


def test_batch_norm_follows_the_batches():
    layer = nn.BatchNorm1d(2, momentum=None)
    first, second = flambeau.randn(8, 2), flambeau.randn(8, 2)
    layer(first)
    layer(second)
    assert layer.num_batches_tracked.item() == 2
    expected = (first.mean(0) + second.mean(0)) / 2
    assert flambeau.allclose(layer.running_mean, expected, atol=1e-6)
    layer.eval()
    x = flambeau.randn(3, 2)
    scaled = (x - layer.running_mean) / (layer.running_var + layer.eps).sqrt()
    assert flambeau.allclose(layer(x), scaled, atol=1e-5)
    layer.reset_running_stats()
    assert layer.num_batches_tracked.item() == 0 and layer.running_var.tolist() == [1, 1]


def test_batch_norm_without_statistics_uses_the_batch_in_evaluation_too():
    layer = nn.BatchNorm1d(2, track_running_stats=False).eval()
    result = layer(flambeau.randn(64, 2))
    assert flambeau.allclose(result.mean(0), flambeau.zeros(2), atol=1e-5)


def test_old_batch_norm_states_load():
    layer = nn.BatchNorm2d(2)
    state = layer.state_dict()
    del state["num_batches_tracked"]
    state._metadata[""] = {"version": 1}
    assert layer.load_state_dict(state).missing_keys == []


def test_instance_norm_takes_one_sample_without_a_batch():
    layer = nn.InstanceNorm2d(3, affine=True)
    x = flambeau.randn(3, 4, 4)
    assert flambeau.allclose(layer(x), layer(x.unsqueeze(0)).squeeze(0))
    with pytest.raises(ValueError, match="num_features"):
        layer(flambeau.randn(1, 2, 4, 4))


def test_embedding_from_table():
    table = flambeau.arange(6.0).reshape(3, 2)
    layer = nn.Embedding.from_pretrained(table)
    assert not layer.weight.requires_grad
    assert layer(flambeau.tensor([2, 0])).tolist() == [[4, 5], [0, 1]]


def test_embedding_padding_row_gets_no_gradient():
    layer = nn.Embedding(4, 2, padding_idx=1)
    assert layer.weight[1].tolist() == [0, 0]
    layer(flambeau.tensor([0, 1, 1])).sum().backward()
    assert layer.weight.grad.tolist() == [[1, 1], [0, 0], [0, 0], [0, 0]]


def test_old_reduction_arguments_are_understood():
    with pytest.warns(UserWarning, match="reduction='sum'"):
        assert nn.MSELoss(size_average=False).reduction == "sum"
    with pytest.warns(UserWarning, match="reduction='none'"):
        assert nn.L1Loss(reduce=False).reduction == "none"


@pytest.mark.parametrize("make", [lambda: nn.ReLU(True), lambda: nn.LeakyReLU(0.1, True), lambda: nn.ELU(1.0, True),
                                  lambda: nn.Hardtanh(inplace=True), lambda: nn.SiLU(True), lambda: nn.SELU(True)])
def test_activations_in_place_have_the_same_gradient(make):
    layer = make()
    plain = make()
    plain.inplace = False
    grads = []
    for act in (layer, plain):
        x = flambeau.linspace(-2, 2, 7).requires_grad_()
        y = x * 1.5
        result = act(y)
        assert (result is y) == act.inplace
        result.square().sum().backward()
        grads.append(x.grad)
    assert flambeau.allclose(*grads, atol=1e-6)


@pytest.mark.parametrize("options", [{"mode": "sum"}, {"mode": "mean"}, {"mode": "max"},
                                     {"mode": "mean", "padding_idx": 2}, {"mode": "sum", "padding_idx": -5}])
def test_embedding_bag_reduces_each_bag(options):
    layer = nn.EmbeddingBag(7, 3, **options)
    index, offsets = flambeau.tensor([0, 1, 2, 2, 5, 6, 2, 3]), [0, 3, 3, 4]
    reduce = {"sum": lambda r: r.sum(0), "mean": lambda r: r.mean(0), "max": lambda r: r.amax(0)}[options["mode"]]
    expected = []
    for start, end in zip(offsets, [*offsets[1:], 8], strict=True):
        rows = [layer.weight[i] for i in index[start:end].tolist() if i != layer.padding_idx]
        expected.append(reduce(flambeau.stack(rows)) if rows else flambeau.zeros(3))
    found = layer(index, flambeau.tensor(offsets))
    assert flambeau.allclose(found, flambeau.stack(expected), atol=1e-6)
    layer.include_last_offset = True
    assert flambeau.equal(layer(index, flambeau.tensor([*offsets, 8])), found)
    found.sum().backward()
    if layer.padding_idx is not None:
        assert layer.weight.grad[layer.padding_idx].tolist() == [0, 0, 0]
    assert layer(index.reshape(2, 4)).shape == (2, 3)


def test_embedding_bag_weights_and_errors():
    layer = nn.EmbeddingBag.from_pretrained(flambeau.tensor([[1.0], [10.0]]), mode="sum")
    index, weights = flambeau.tensor([[0, 1]]), flambeau.tensor([[2.0, 3.0]])
    assert layer(index, per_sample_weights=weights).tolist() == [[32]] and not layer.weight.requires_grad
    for act, error, text in (
        (lambda: layer(index, flambeau.tensor([0])), ValueError, "-d input are the bags, so offsets must be None"),
        (lambda: layer(index[0]), ValueError, "needs offsets"),
        (lambda: layer(index[0], flambeau.tensor([1])), RuntimeError, "start at 0"),
        (lambda: layer(index[0], flambeau.tensor([0, 5])), RuntimeError, "within the 2"),
        (lambda: layer(index, per_sample_weights=weights[0]), ValueError, "must be shaped as input"),
        (lambda: nn.EmbeddingBag(2, 1)(index, per_sample_weights=weights), NotImplementedError, "needs mode='sum'"),
        (lambda: nn.EmbeddingBag(2, 1, mode="max", scale_grad_by_freq=True)(index), ValueError, "does not count rows"),
        (lambda: nn.EmbeddingBag(2, 1, mode="min")(index), ValueError, "mode must be 'sum', 'mean' or 'max'"),
    ):
        with pytest.raises(error, match=text):
            act()


def test_instance_norm_warns_of_a_number_of_features_that_it_does_not_use():
    with pytest.warns(UserWarning, match="3 channels .* num_features=4"):
        nn.InstanceNorm1d(4)(flambeau.ones(2, 3, 5))
    with pytest.raises(ValueError, match="num_features=4"):
        nn.InstanceNorm1d(4, affine=True)(flambeau.ones(2, 3, 5))
