"""Whole models: what prepare puts in, what convert makes of it, training with fake quantization, and graphs."""

import copy
import io

import pytest

import flambeau
from flambeau import nn
from flambeau.ao import quantization as aoq
from flambeau.ao.nn import intrinsic, qat
from flambeau.ao.quantization import quantize_fx
from flambeau.ao.quantization.backend_config import (
    BackendConfig,
    BackendPatternConfig,
    DTypeConfig,
    ObservationType,
    get_native_backend_config,
)
from flambeau.ao.quantization.fx.custom_config import ConvertCustomConfig, PrepareCustomConfig

from .networks import eager, filled, graphs, numbers

#: the product with a number in attention is not observed: its range follows from its operand's
pytestmark = pytest.mark.filterwarnings("ignore:observer. nothing was seen")

EAGER, GRAPHS = eager(flambeau), graphs(flambeau)
BACKENDS = ("x86", "qnnpack")


def calibrated(name, backend="x86"):
    """(float model, prepared model, input)."""
    make, fuse, shape = EAGER[name]
    model = filled(flambeau, make()).eval()
    model.qconfig = aoq.get_default_qconfig(backend)
    prepared = aoq.prepare(aoq.fuse_modules(model, fuse) if fuse else model)
    x = numbers(flambeau, *shape, scale=2)
    prepared(x)
    return model, prepared, x


# --- eager ------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", EAGER)
def test_prepare_keeps_the_numbers(name):
    model, prepared, x = calibrated(name)
    assert flambeau.allclose(prepared(x), model(x), atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", EAGER)
def test_the_quantized_model_is_near_the_float_one(name, backend):
    model, prepared, x = calibrated(name, backend)
    quantized = aoq.convert(prepared)
    assert not any(hasattr(part, "qconfig") for part in quantized.modules())
    assert not any(isinstance(part, aoq.ObserverBase) for part in quantized.modules())
    expected = model(x)
    assert (quantized(x) - expected).abs().max() < 0.12 * expected.abs().max() + 0.02


def test_prepare_observes_what_the_mapping_says():
    model = nn.Sequential(aoq.QuantStub(), nn.Linear(2, 2), nn.Sigmoid(), nn.Dropout(), nn.Linear(2, 2)).eval()
    model.qconfig, model[4].qconfig = aoq.default_qconfig, None
    prepared = aoq.prepare(model)
    prepared(flambeau.ones(1, 2))
    assert [hasattr(part, "activation_post_process") for part in prepared] == [True, True, False, False, False]
    names = [type(part).__name__ for part in aoq.convert(prepared)]
    assert names == ["Quantize", "Linear", "Sigmoid", "Dropout", "Linear"]
    assert isinstance(aoq.convert(prepared)[4], nn.Linear)


@pytest.mark.parametrize("name", ["residual", "perceptron"])
def test_fusing_keeps_the_numbers(name):
    make, fuse, shape = EAGER[name]
    model, x = filled(flambeau, make()).eval(), numbers(flambeau, *shape)
    assert flambeau.allclose(aoq.fuse_modules(model, fuse)(x), model(x), atol=1e-5)
    assert flambeau.allclose(aoq.fuse_modules_qat(model, fuse)(x), model(x), atol=1e-5)


def test_reference_layers_compute_with_the_codes_of_their_weight():
    _, prepared, _ = calibrated("perceptron")
    reference = aoq.convert(prepared, is_reference=True)
    layer = reference.c
    assert repr(layer).startswith("QuantizedLinear(Reference)(")
    y = numbers(flambeau, 3, 16)
    expected = nn.functional.linear(y, layer.get_quantized_weight().dequantize(), layer.bias)
    assert layer(y).equal(expected)
    other = type(layer)(16, 4, weight_qparams={"qscheme": flambeau.per_channel_affine, "dtype": flambeau.qint8,
                                               "scale": flambeau.ones(4), "zero_point": flambeau.zeros(4).int()})
    other.load_state_dict(layer.state_dict())
    assert other(y).equal(expected)


def test_folded_batch_norm_is_the_formula():
    """bn(conv(x, fq(w s)) / s), s = g / sqrt(running_var + eps), and its gradient reaches w and g."""
    fused = filled(flambeau, intrinsic.ConvBnReLU2d(nn.Conv2d(2, 3, 3, bias=False), nn.BatchNorm2d(3), nn.ReLU()))
    fused.train().qconfig = aoq.get_default_qat_qconfig("x86", 0)
    layer = intrinsic.qat.ConvBnReLU2d.from_float(fused)
    x = numbers(flambeau, 4, 2, 5, 5)
    factor = layer.bn.weight / (layer.bn.running_var + layer.bn.eps).sqrt()
    weight = layer.weight_fake_quant(layer.weight * factor.reshape(-1, 1, 1, 1))
    y = nn.functional.conv2d(x, weight) / factor.reshape(1, -1, 1, 1)
    expected = nn.functional.batch_norm(y, None, None, layer.bn.weight, layer.bn.bias, True).relu()
    found = layer(x)
    assert flambeau.allclose(found, expected, atol=1e-6)
    found.square().sum().backward()
    assert layer.weight.grad.abs().sum() > 0 and layer.bn.weight.grad.abs().sum() > 0
    before = layer.bn.running_mean.clone()
    layer.freeze_bn_stats().train()(x)
    assert layer.bn.running_mean.equal(before) and not layer.bn.training


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("name", ["residual", "perceptron"])
def test_training_with_fake_quantization(name, version):
    make, fuse, shape = EAGER[name]
    model = filled(flambeau, make()).train()
    model.qconfig = aoq.get_default_qat_qconfig("qnnpack", version)
    prepared = aoq.prepare_qat(aoq.fuse_modules_qat(model, fuse))
    optimizer = flambeau.optim.SGD(prepared.parameters(), lr=0.02)
    x, losses = numbers(flambeau, *shape), []
    for _ in range(12):
        loss = prepared(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    prepared.apply(aoq.disable_observer).eval()
    quantized = aoq.convert(prepared)
    assert (quantized(x) - prepared(x)).abs().max() < 0.1 * prepared(x).abs().max() + 0.05


def test_layers_for_training_become_float_again():
    layer = nn.Linear(3, 2)
    layer.qconfig = aoq.get_default_qat_qconfig()
    made = qat.Linear.from_float(layer)
    assert made.weight is layer.weight and made.to_float()(flambeau.ones(1, 3)).equal(layer(flambeau.ones(1, 3)))


REFUSED = {
    "training": (lambda: aoq.prepare_qat(nn.Linear(2, 2).eval()), AssertionError, "train"),
    "fusing": (lambda: aoq.fuse_modules(nn.Sequential(nn.ReLU(), nn.Linear(1, 1)).eval(), ["0", "1"]), AssertionError,
               "fuse"),
    "no qconfig": (lambda: qat.Linear.from_float(nn.Linear(2, 2)), AssertionError, "qconfig"),
    "wrong parts": (lambda: intrinsic.ConvReLU2d(nn.ReLU(), nn.ReLU()), AssertionError, "expected Conv2d, ReLU"),
    "not prepared": (lambda: quantize_fx.convert_fx(flambeau.fx.symbolic_trace(nn.ReLU())), AssertionError, "prepare"),
    "backend": (lambda: aoq.get_default_qat_qconfig("cuda"), AssertionError, "qnnpack"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    run, kind, words = REFUSED[name]
    with pytest.raises(kind, match=words):
        run()


# --- graphs -----------------------------------------------------------------------------------------------------------

def observed(name, mapping=None, qat_too=False):
    make, shape = GRAPHS[name]
    model, x = filled(flambeau, make()), numbers(flambeau, *shape, scale=2)
    if qat_too:
        prepared = quantize_fx.prepare_qat_fx(model.train(), aoq.get_default_qat_qconfig_mapping(), (x,))
        prepared(x).square().sum().backward()
        return model.eval(), prepared.eval(), x
    prepared = quantize_fx.prepare_fx(model.eval(), mapping or aoq.get_default_qconfig_mapping(), (x,))
    prepared(x)
    return model, prepared, x


@pytest.mark.parametrize("name", GRAPHS)
def test_graph_reference_and_codes_agree(name):
    model, prepared, x = observed(name)
    assert flambeau.allclose(prepared(x), model(x), atol=1e-5)
    reference, quantized = quantize_fx.convert_to_reference_fx(prepared), quantize_fx.convert_fx(prepared)
    step = reference(x).abs().max() / 127
    assert (reference(x) - quantized(x)).abs().max() <= 3 * step
    assert (quantized(x) - model(x)).abs().max() < 0.15 * model(x).abs().max() + 0.05


def test_the_graph_of_a_quantized_network():
    _, prepared, _ = observed("convolutions")
    nodes = [node.name for node in quantize_fx.convert_fx(prepared).graph.nodes if node.op != "get_attr"]
    assert nodes == ["x", "quantize_per_tensor", "conv", "conv2", "add_relu", "pool", "flatten", "fc", "dequantize_6",
                     "output"]


def test_mapping_decides_by_place():
    mapping = aoq.get_default_qconfig_mapping().set_module_name("conv2", None).set_object_type(nn.Linear, None)
    _, prepared, x = observed("convolutions", mapping)
    quantized = quantize_fx.convert_fx(prepared)
    assert isinstance(quantized.conv2, nn.Conv2d) and isinstance(quantized.fc, nn.Linear)
    assert type(quantized.conv).__name__ == "ConvReLU2d" and quantized(x).shape == (2, 3)
    again = aoq.QConfigMapping.from_dict(mapping.to_dict())
    assert again.to_dict() == mapping.to_dict()


def test_graph_training():
    _, prepared, _ = observed("convolutions", qat_too=True)
    assert type(prepared.conv).__name__ == "ConvBnReLU2d" and prepared.conv.weight.grad is not None
    assert type(quantize_fx.convert_fx(prepared).conv).__name__ == "ConvReLU2d"


def test_codes_may_go_in_and_out():
    make, shape = GRAPHS["convolutions"]
    x = numbers(flambeau, *shape)
    custom = PrepareCustomConfig().set_input_quantized_indexes([0]).set_output_quantized_indexes([0])
    prepared = quantize_fx.prepare_fx(make().eval(), aoq.get_default_qconfig_mapping(), (x,), custom)
    prepared(x)
    quantized = quantize_fx.convert_fx(prepared)
    assert quantized(flambeau.quantize_per_tensor(x, 0.02, 64, flambeau.quint8)).dtype is flambeau.quint8


def test_state_of_a_quantized_graph():
    _, prepared, x = observed("mobile")
    quantized = quantize_fx.convert_fx(prepared)
    file = io.BytesIO()
    flambeau.save(quantized.state_dict(), file)
    other = quantize_fx.convert_fx(copy.deepcopy(prepared))
    file.seek(0)
    other.load_state_dict(flambeau.load(file))
    assert other(x).equal(quantized(x))


def test_kept_attributes_and_own_backend():
    model, x = nn.Sequential(nn.Linear(3, 2), nn.ReLU()).eval(), flambeau.ones(1, 3)
    model.note = "kept"
    custom = PrepareCustomConfig().set_preserved_attributes(["note"])
    backend = BackendConfig("own").set_backend_pattern_config(
        BackendPatternConfig(nn.ReLU).set_observation_type(ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT)
        .add_dtype_config(DTypeConfig(flambeau.quint8, flambeau.quint8)))
    prepared = quantize_fx.prepare_fx(model, aoq.get_default_qconfig_mapping(), (x,), custom, backend_config=backend)
    assert [node.target for node in prepared.graph.nodes if node.op == "call_module"] == \
        ["0", "activation_post_process_0", "1", "activation_post_process_1"]
    prepared(x)
    converted = quantize_fx.convert_fx(prepared, ConvertCustomConfig(), backend_config=backend)
    assert converted.note == "kept" and isinstance(converted.get_submodule("0"), nn.Linear)


def test_backend_config_as_plain_data():
    native = get_native_backend_config()
    again = BackendConfig.from_dict(native.to_dict())
    assert again.to_dict() == native.to_dict() and len(again.configs) == len(native.configs)


def test_layers_that_are_part_of_another_are_gone():
    class Net(flambeau.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = flambeau.nn.Conv2d(1, 2, 3), flambeau.nn.BatchNorm2d(2)

        def forward(self, x):
            return flambeau.nn.functional.relu(self.norm(self.conv(x)))

    fused = flambeau.ao.quantization.quantize_fx.fuse_fx(Net().eval())
    assert [name for name, _ in fused.named_children()] == ["conv"]
