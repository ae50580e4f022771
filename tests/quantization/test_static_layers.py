"""Layers of static quantization: what they compute, their state, their texts, and how they come from float layers."""

import copy
import io
import pickle

import pytest

import flambeau
from flambeau import nn
from flambeau.ao.nn import quantized as nnq
from flambeau.ao.nn.intrinsic import quantized as nniq
from flambeau.ao.quantization import MinMaxObserver, QConfig, default_weight_observer, per_channel_dynamic_qconfig

dynamic = nnq.dynamic
OBSERVED = QConfig(activation=MinMaxObserver.with_args(dtype=flambeau.quint8), weight=default_weight_observer)


def codes(*shape):
    return flambeau.quantize_per_tensor(flambeau.randn(shape), 0.03, 100, flambeau.quint8)


def numbers(*shape):
    return flambeau.randn(shape)


def weighted(layer, scale=0.0625, zero=70):
    """A layer with weights and a scale, in place of those it has when it is new."""
    w = flambeau.quantize_per_tensor(flambeau.randn(layer.weight().shape), 0.02, 0, flambeau.qint8)
    layer.set_weight_bias(w, None if layer.bias() is None else flambeau.randn(layer.bias().shape))
    layer.scale, layer.zero_point = scale, zero
    return layer


def recurrent(layer):
    layer.set_weight_bias({
        **{k: flambeau.quantize_per_tensor(flambeau.randn(v.shape), 0.02, 0, flambeau.qint8)
           for k, v in layer.get_weight().items()},
        **{k: flambeau.randn(v.shape) for k, v in layer.get_bias().items()}})
    return layer


def table(kind):
    made = kind(6, 4)
    made.set_weight(flambeau.quantize_per_channel(flambeau.randn(6, 4), flambeau.rand(6) + 0.01, flambeau.rand(6) * 99,
                                                  0, flambeau.quint8))
    return made


def part(value):
    return nn.Parameter(flambeau.full((4,), value))


#: name -> (the layer, its input, how it is shown)
LAYERS = {
    "Linear": (lambda: weighted(nnq.Linear(4, 3)), codes(2, 4),
               "QuantizedLinear(in_features=4, out_features=3, scale=0.0625, zero_point=70, "
               "qscheme=torch.per_tensor_affine)"),
    "Conv1d": (lambda: weighted(nnq.Conv1d(4, 6, 3)), codes(2, 4, 8),
               "QuantizedConv1d(4, 6, kernel_size=(3,), stride=(1,), scale=0.0625, zero_point=70)"),
    "Conv2d": (lambda: weighted(nnq.Conv2d(4, 6, 3, 2, 1, 2, 2, False)), codes(2, 4, 8, 8),
               "QuantizedConv2d(4, 6, kernel_size=(3, 3), stride=(2, 2), scale=0.0625, zero_point=70, padding=(1, 1), "
               "dilation=(2, 2), groups=2, bias=False)"),
    "Conv2d reflect": (lambda: weighted(nnq.Conv2d(4, 6, 3, padding=1, padding_mode="reflect")), codes(2, 4, 8, 8),
                       "QuantizedConv2d(4, 6, kernel_size=(3, 3), stride=(1, 1), scale=0.0625, zero_point=70, "
                       "padding=(1, 1))"),
    "Conv3d": (lambda: weighted(nnq.Conv3d(4, 6, 3)), codes(2, 4, 5, 5, 5),
               "QuantizedConv3d(4, 6, kernel_size=(3, 3, 3), stride=(1, 1, 1), scale=0.0625, zero_point=70)"),
    "ConvTranspose2d": (lambda: weighted(nnq.ConvTranspose2d(4, 6, 3, 2, output_padding=1)), codes(2, 4, 5, 5),
                        "QuantizedConvTranspose2d(4, 6, kernel_size=(3, 3), stride=(2, 2), scale=0.0625, "
                        "zero_point=70, output_padding=(1, 1))"),
    "LinearReLU": (lambda: weighted(nniq.LinearReLU(4, 3)), codes(2, 4),
                   "QuantizedLinearReLU(in_features=4, out_features=3, scale=0.0625, zero_point=70, "
                   "qscheme=torch.per_tensor_affine)"),
    "LinearLeakyReLU": (lambda: weighted(nniq.LinearLeakyReLU(4, 3, 0.2)), codes(2, 4),
                        "QuantizedLinearLeakyReLU(in_features=4, out_features=3, scale=0.0625, zero_point=70, "
                        "qscheme=torch.per_tensor_affine)"),
    "LinearTanh": (lambda: weighted(nniq.LinearTanh(4, 3)), codes(2, 4),
                   "QuantizedLinearTanh(in_features=4, out_features=3, scale=0.0625, zero_point=70, "
                   "qscheme=torch.per_tensor_affine)"),
    "ConvReLU2d": (lambda: weighted(nniq.ConvReLU2d(4, 6, 3)), codes(2, 4, 8, 8),
                   "QuantizedConvReLU2d(4, 6, kernel_size=(3, 3), stride=(1, 1), scale=0.0625, zero_point=70)"),
    "BatchNorm2d": (lambda: nnq.BatchNorm2d(4), codes(2, 4, 3, 3),
                    "QuantizedBatchNorm2d(4, eps=1e-05, momentum=0.1, affine=True, bias=True, "
                    "track_running_stats=True)"),
    "BNReLU3d": (lambda: nniq.BNReLU3d(4), codes(2, 4, 3, 3, 3),
                 "QuantizedBNReLU3d(4, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)"),
    "LayerNorm": (lambda: nnq.LayerNorm([4], part(1.5), part(0.1), 0.0625, 70), codes(2, 4),
                  "QuantizedLayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True)"),
    "GroupNorm": (lambda: nnq.GroupNorm(2, 4, part(1.5), part(0.1), 0.0625, 70), codes(2, 4, 3),
                  "QuantizedGroupNorm(2, 4, eps=1e-05, affine=True, bias=True)"),
    "InstanceNorm2d": (lambda: nnq.InstanceNorm2d(4, part(1.5), part(0.1), 0.0625, 70), codes(2, 4, 3, 3),
                       "QuantizedInstanceNorm2d(4, eps=1e-05, momentum=0.1, affine=False, bias=True, "
                       "track_running_stats=False)"),
    "Hardswish": (lambda: nnq.Hardswish(0.0625, 70), codes(2, 4), "QuantizedHardswish()"),
    "ELU": (lambda: nnq.ELU(0.0625, 70, 1.5), codes(2, 4), "QuantizedELU(alpha=1.5)"),
    "LeakyReLU": (lambda: nnq.LeakyReLU(0.0625, 70), codes(2, 4), "QuantizedLeakyReLU(negative_slope=0.01)"),
    "Sigmoid": (lambda: nnq.Sigmoid(1 / 256, 0), codes(2, 4), "Sigmoid()"),
    "Softmax": (lambda: nnq.Softmax(-1, 1 / 256, 0), codes(2, 4), "QuantizedSoftmax(dim=-1)"),
    "ReLU6": (lambda: nnq.ReLU6(), codes(2, 4), "QuantizedReLU6()"),
    "Dropout": (lambda: nnq.Dropout(0.3), codes(2, 4), "QuantizedDropout(p=0.3, inplace=False)"),
    "Quantize": (lambda: nnq.Quantize(0.5, 1, flambeau.quint8), numbers(2, 4),
                 "Quantize(scale=tensor([0.5000]), zero_point=tensor([1]), dtype=torch.quint8)"),
    "DeQuantize": (lambda: nnq.DeQuantize(), codes(2, 4), "DeQuantize()"),
    "Embedding": (lambda: table(nnq.Embedding), flambeau.tensor([1, 5]),
                  "QuantizedEmbedding(num_embeddings=6, embedding_dim=4, dtype=torch.quint8, "
                  "qscheme=torch.per_channel_affine_float_qparams)"),
    "EmbeddingBag": (lambda: table(nnq.EmbeddingBag), flambeau.tensor([[1, 5]]),
                     "QuantizedEmbeddingBag(num_embeddings=6, embedding_dim=4, dtype=torch.quint8, "
                     "qscheme=torch.per_channel_affine_float_qparams)"),
    "dynamic Linear": (lambda: weighted(dynamic.Linear(4, 3), 1.0, 0), numbers(2, 4),
                       "DynamicQuantizedLinear(in_features=4, out_features=3, dtype=torch.qint8, "
                       "qscheme=torch.per_tensor_affine)"),
    "dynamic LinearReLU": (lambda: weighted(nniq.dynamic.LinearReLU(4, 3), 1.0, 0), numbers(2, 4),
                           "DynamicQuantizedLinearReLU(in_features=4, out_features=3, dtype=torch.qint8, "
                           "qscheme=torch.per_tensor_affine)"),
    "dynamic Conv2d": (lambda: weighted(dynamic.Conv2d(4, 6, 3), 1.0, 0), numbers(2, 4, 8, 8),
                       "DynamicQuantizedConv2d(4, 6, kernel_size=(3, 3), stride=(1, 1), scale=1.0, zero_point=0)"),
    "dynamic ConvTranspose1d": (lambda: weighted(dynamic.ConvTranspose1d(4, 6, 3), 1.0, 0), numbers(2, 4, 8),
                                "DynamicQuantizedConvTranspose1d(4, 6, kernel_size=(3,), stride=(1,), scale=1.0, "
                                "zero_point=0)"),
    "dynamic GRU": (lambda: recurrent(dynamic.GRU(4, 3, 2, bidirectional=True)), numbers(5, 2, 4),
                    "DynamicQuantizedGRU(4, 3, num_layers=2, bidirectional=True)"),
    "dynamic LSTM": (lambda: recurrent(dynamic.LSTM(4, 3)), numbers(5, 2, 4), "DynamicQuantizedLSTM(4, 3)"),
    "dynamic RNNCell": (lambda: recurrent(dynamic.RNNCell(4, 3)), numbers(2, 4), "DynamicQuantizedRNNCell(4, 3)"),
    "dynamic LSTMCell": (lambda: recurrent(dynamic.LSTMCell(4, 3)), numbers(2, 4), "DynamicQuantizedLSTMCell(4, 3)"),
    "dynamic GRUCell": (lambda: recurrent(dynamic.GRUCell(4, 3)), numbers(2, 4), "DynamicQuantizedGRUCell(4, 3)"),
}


def same(a, b):
    if isinstance(a, tuple):
        return all(same(x, y) for x, y in zip(a, b, strict=True))
    return a.equal(b)


@pytest.mark.parametrize("name", LAYERS)
def test_texts(name):
    make, _, text = LAYERS[name]
    assert repr(make()) == text


@pytest.mark.parametrize("name", LAYERS)
def test_state_goes_through_files(name):
    """A layer of the same form that has loaded the state computes the same; so do copies and pickles."""
    make, x, _ = LAYERS[name]
    layer, other = make(), make()
    stream = io.BytesIO()
    flambeau.save(layer.state_dict(), stream)
    state = flambeau.load(io.BytesIO(stream.getvalue()))
    assert list(state) == list(layer.state_dict())
    other.load_state_dict(state)
    for again in (other, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert same(again(x), layer(x)) and repr(again) == repr(layer)
    if state and name not in ("Quantize", "LayerNorm", "GroupNorm", "InstanceNorm2d"):
        missing = copy.copy(state)
        missing.popitem()
        with pytest.raises(RuntimeError, match=r"[Mm]issing"):
            make().load_state_dict(missing)


@pytest.mark.parametrize("name", [n for n in LAYERS if "Conv" in n or "Linear" in n])
def test_a_copy_is_independent(name):
    make, x, _ = LAYERS[name]
    layer = make()
    expected, again = layer(x), copy.deepcopy(layer)
    again.set_weight_bias(flambeau.quantize_per_tensor(flambeau.zeros(layer.weight().shape), 1.0, 0, flambeau.qint8),
                          again.bias())
    assert same(layer(x), expected) and not same(again(x), expected)


def observed(layer, *inputs):
    """A float layer whose results have been seen, as `prepare` and some data leave it."""
    layer.qconfig = OBSERVED
    layer.activation_post_process = OBSERVED.activation()
    layer.activation_post_process(layer(*inputs).detach())
    return layer


FROM_FLOAT = {
    "Linear": (nnq.Linear, nn.Linear(6, 5), (3, 6)),
    "LinearReLU": (nniq.LinearReLU, nn.Sequential(nn.Linear(6, 5), nn.ReLU()), (3, 6)),
    "LinearLeakyReLU": (nniq.LinearLeakyReLU, nn.Sequential(nn.Linear(6, 5), nn.LeakyReLU(0.2)), (3, 6)),
    "LinearTanh": (nniq.LinearTanh, nn.Sequential(nn.Linear(6, 5), nn.Tanh()), (3, 6)),
    "Conv1d": (nnq.Conv1d, nn.Conv1d(4, 6, 3, padding=1), (2, 4, 9)),
    "Conv2d": (nnq.Conv2d, nn.Conv2d(4, 6, 3, stride=2, groups=2, bias=False), (2, 4, 9, 9)),
    "Conv3d": (nnq.Conv3d, nn.Conv3d(4, 6, 3, dilation=2), (2, 4, 5, 5, 5)),
    "ConvReLU1d": (nniq.ConvReLU1d, nn.Sequential(nn.Conv1d(4, 6, 3), nn.ReLU()), (2, 4, 9)),
    "ConvReLU2d": (nniq.ConvReLU2d, nn.Sequential(nn.Conv2d(4, 6, 3), nn.ReLU()), (2, 4, 9, 9)),
    "ConvReLU3d": (nniq.ConvReLU3d, nn.Sequential(nn.Conv3d(4, 6, 3), nn.ReLU()), (2, 4, 5, 5, 5)),
    "ConvTranspose1d": (nnq.ConvTranspose1d, nn.ConvTranspose1d(4, 6, 3, 2), (2, 4, 5)),
    "ConvTranspose2d": (nnq.ConvTranspose2d, nn.ConvTranspose2d(4, 6, 3, 2, 1, 1), (2, 4, 5, 5)),
    "ConvTranspose3d": (nnq.ConvTranspose3d, nn.ConvTranspose3d(4, 6, 2), (2, 4, 3, 3, 3)),
    "BatchNorm2d": (nnq.BatchNorm2d, nn.BatchNorm2d(4).eval(), (2, 4, 3, 3)),
    "BNReLU2d": (nniq.BNReLU2d, nn.Sequential(nn.BatchNorm2d(4), nn.ReLU()).eval(), (2, 4, 3, 3)),
    "BatchNorm3d": (nnq.BatchNorm3d, nn.BatchNorm3d(4).eval(), (2, 4, 3, 3, 3)),
    "LayerNorm": (nnq.LayerNorm, nn.LayerNorm(6), (3, 6)),
    "GroupNorm": (nnq.GroupNorm, nn.GroupNorm(2, 4), (3, 4, 6)),
    "InstanceNorm1d": (nnq.InstanceNorm1d, nn.InstanceNorm1d(4, affine=True), (3, 4, 6)),
    "InstanceNorm3d": (nnq.InstanceNorm3d, nn.InstanceNorm3d(4), (3, 4, 3, 3, 3)),
    "Hardswish": (nnq.Hardswish, nn.Hardswish(), (3, 6)),
    "ELU": (nnq.ELU, nn.ELU(0.7), (3, 6)),
    "LeakyReLU": (nnq.LeakyReLU, nn.LeakyReLU(0.3), (3, 6)),
    "Sigmoid": (nnq.Sigmoid, nn.Sigmoid(), (3, 6)),
    "Softmax": (nnq.Softmax, nn.Softmax(1), (3, 6)),
    "ReLU6": (nnq.ReLU6, nn.ReLU6(), (3, 6)),
    "Dropout": (nnq.Dropout, nn.Dropout().eval(), (3, 6)),
}


@pytest.mark.parametrize("name", FROM_FLOAT)
def test_from_float(name):
    """The quantized layer computes what the float layer does, to the steps of its weight and result."""
    kind, layer, shape = FROM_FLOAT[name]
    x = flambeau.quantize_per_tensor(flambeau.randn(shape), 0.02, 128, flambeau.quint8)
    made = kind.from_float(observed(layer, x.dequantize()))
    assert type(made) is kind
    found, expected = made(x), layer(x.dequantize())
    step = found.q_scale()
    products = getattr(made, "weight", None) if callable(getattr(made, "weight", None)) else None
    slack = 0.51 * step
    if products is not None:  # each weight is off by half a step of its own at most
        terms = products().numel() / found.shape[min(1, found.ndim - 1)]
        slack += 0.5 * products().q_scale() * terms * x.dequantize().abs().max().item()
    assert (found.dequantize() - expected).abs().max().item() <= slack + 1e-5


def test_from_dynamic_float():
    for kind, layer, shape in ((dynamic.Linear, nn.Linear(6, 5), (3, 6)),
                               (dynamic.GRU, nn.GRU(6, 5, 2), (4, 3, 6)), (dynamic.LSTMCell, nn.LSTMCell(6, 5), (3, 6)),
                               (dynamic.GRUCell, nn.GRUCell(6, 5), (3, 6)),
                               (dynamic.RNNCell, nn.RNNCell(6, 5, nonlinearity="relu"), (3, 6))):
        layer.qconfig = per_channel_dynamic_qconfig
        x = flambeau.randn(shape).clamp(-3, 3) * 0.3
        found, expected = kind.from_float(layer)(x), layer(x)
        if isinstance(found, tuple):
            found, expected = found[0], expected[0]
        assert (found - expected).abs().max().item() < 0.05


def test_layers_trained_with_batch_normalization_are_folded():
    conv = nn.Conv2d(4, 6, 3)
    conv.bn, conv.qconfig = nn.BatchNorm2d(6).eval(), OBSERVED
    conv.bn.running_mean, conv.bn.running_var = flambeau.randn(6), flambeau.rand(6) + 0.5
    conv.weight_fake_quant = default_weight_observer()
    conv.activation_post_process = MinMaxObserver()
    x = codes(2, 4, 7, 7)
    expected = conv.bn(nn.functional.conv2d(x.dequantize(), conv.weight, conv.bias))
    conv.activation_post_process(expected.detach())
    found = nnq.Conv2d.from_float(conv)(x)
    assert (found.dequantize() - expected).abs().max().item() < 0.1


def test_functional_modules():
    x, y = codes(2, 3), codes(2, 3)
    observed = nnq.FloatFunctional()
    observed.activation_post_process = MinMaxObserver()
    observed.add(x.dequantize(), y.dequantize())
    made = nnq.QFunctional.from_float(observed)
    assert repr(made) == (f"QFunctional(\n  scale={made.scale}, zero_point={made.zero_point}\n"
                          "  (activation_post_process): Identity()\n)")
    results = {"add": x.dequantize() + y.dequantize(), "mul": x.dequantize() * y.dequantize(),
               "add_relu": (x.dequantize() + y.dequantize()).relu()}
    for name, expected in results.items():
        found = getattr(made, name)(x, y).dequantize()
        assert (found - expected).abs().max().item() <= 0.51 * made.scale or name == "mul"
    assert list(made.cat([x, y]).shape) == [4, 3] and list(made.matmul(x, y.t()).shape) == [2, 2]
    assert made.mul_scalar(x, 2.0).dequantize().equal(x.dequantize() * 2)
    assert list(made.state_dict()) == ["scale", "zero_point"]
    again = nnq.QFunctional()
    again.load_state_dict(made.state_dict())
    assert again.scale == pytest.approx(made.scale) and again.zero_point == made.zero_point
    with pytest.raises(RuntimeError, match="one of its methods"):
        made(x)


def test_functions_are_those_of_the_layers():
    x, qF = codes(2, 4, 6, 6), nnq.functional
    layer = weighted(nnq.Conv2d(4, 5, 3))
    assert qF.conv2d(x, layer.weight(), layer.bias(), scale=layer.scale, zero_point=layer.zero_point).equal(layer(x))
    assert qF.elu(x, 0.0625, 70).equal(nnq.ELU(0.0625, 70)(x))
    assert qF.hardswish(x, 0.0625, 70).equal(nnq.Hardswish(0.0625, 70)(x))
    assert qF.leaky_relu(x, 0.1, scale=0.0625, zero_point=70).equal(nnq.LeakyReLU(0.0625, 70, 0.1)(x))
    assert qF.max_pool2d(x, 2).equal(nn.MaxPool2d(2)(x))
    assert qF.interpolate(x, scale_factor=2).shape == (2, 4, 12, 12)
    with pytest.raises(ValueError, match="must be quantized"):
        qF.avg_pool2d(x.dequantize(), 2)
    with pytest.raises(NotImplementedError, match="return_indices"):
        qF.max_pool2d(x, 2, return_indices=True)


@pytest.mark.parametrize(("run", "error", "text"), [
    (lambda: nnq.Linear.from_float(nn.Conv1d(1, 1, 1)), AssertionError, "Linear"),
    (lambda: nnq.Linear.from_float(nn.Linear(2, 2)), AssertionError, "qconfig"),
    (lambda: nnq.Conv2d(4, 6, 3, padding_mode="circular"), NotImplementedError, "padding_mode"),
    (lambda: nnq.Conv2d(4, 6, 3, groups=3), ValueError, "groups"),
    (lambda: nnq.Conv2d(4, 6, 3).set_weight_bias(flambeau.ones(6, 4, 3, 3), None), RuntimeError, "qint8"),
    (lambda: nnq.EmbeddingBag(4, 3, mode="mean"), NotImplementedError, "mode"),
    (lambda: nnq.Embedding(4, 3, dtype=flambeau.qint8), NotImplementedError, "quint8"),
    (lambda: nnq.Linear(4, 3)(flambeau.ones(2, 4)), RuntimeError, "quantized"),
    (lambda: dynamic.RNNCell(4, 3)(flambeau.ones(2, 5)), RuntimeError, r"\[n, 4\]"),
    (lambda: dynamic.GRUCell(4, 3)(flambeau.ones(2, 4), flambeau.ones(3, 3)), RuntimeError, "state"),
    (lambda: dynamic.Conv2d(4, 3, 3)(flambeau.ones(2, 4, 5, 5).double()), RuntimeError, "float32"),
])
def test_mistakes(run, error, text):
    with pytest.raises(error, match=text):
        run()
