"""Quantized tensors, observers, fake quantization and dynamic layers: PyTorch's numbers, texts, files and refusals."""

import base64
import copy
import importlib
import io
import json
import math
import pickle
import warnings
import zipfile
from pathlib import Path

import pytest

import flambeau
from flambeau import nn

from . import scenarios

EXPECTED = json.loads(scenarios.GOLDEN.read_text())


def close(found, expected, rel, path=""):
    """The same nested data; floats to a relative tolerance."""
    if isinstance(expected, list):
        assert isinstance(found, (list, tuple)) and len(found) == len(expected), path
        for k, (a, b) in enumerate(zip(found, expected, strict=True)):
            close(a, b, rel, f"{path}[{k}]")
    elif isinstance(expected, dict):
        assert list(found) == list(expected), path
        for key in expected:
            close(found[key], expected[key], rel, f"{path}[{key!r}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=rel, abs=rel, nan_ok=True), path
    else:
        assert found == expected, path


@pytest.mark.parametrize("name", ["tensors", "rounding", "operators", "channel operators", "comparisons", "qparams"])
def test_exactly_as_pytorch(name):
    """Codes, numbers, scales, texts."""
    close(scenarios.RUNS[name](flambeau), EXPECTED[name], 1e-15)


@pytest.mark.parametrize(("name", "rel"), [("fake", 1e-5), ("observers", 1e-6), ("fakes", 1e-6), ("dynamic", 2e-6),
                                           ("lstm", 2e-5), ("weight only", 1e-2)])
def test_numbers_of_pytorch(name, rel):
    """Sums in another order; the dynamic layer's codes are the same, so only float rounding is left."""
    close(scenarios.RUNS[name](flambeau), EXPECTED[name], rel)


# --- files ------------------------------------------------------------------------------------------------------------

def unpacked(name):
    return io.BytesIO(base64.b85decode(EXPECTED["files"][name]))


def same(a, b):
    if isinstance(a, flambeau.Tensor):
        if a.is_quantized:
            return repr(a) == repr(b) and a.equal(b)
        return a.equal(b)
    if isinstance(a, (dict, list, tuple)):
        pairs = zip(a.values(), b.values(), strict=True) if isinstance(a, dict) else zip(a, b, strict=True)
        return len(a) == len(b) and all(same(x, y) for x, y in pairs)
    return a == b


def expected_objects():
    q = scenarios.quantized(flambeau)
    model = flambeau.ao.quantization.quantize_dynamic(
        nn.Sequential(scenarios.layer(flambeau, 4, 6), scenarios.layer(flambeau, 2, 4, False)))
    return {"tensors": q, "view": q["quint8"][1:, ::2], "model": model.state_dict(),
            "scheme": flambeau.per_tensor_affine, "dtype": flambeau.qint8}


@pytest.mark.parametrize("name", ["tensors", "view", "model", "scheme", "dtype"])
def test_files_of_pytorch_are_read(name):
    loaded, wanted = flambeau.load(unpacked(name)), expected_objects()[name]
    assert same(wanted, loaded)
    if isinstance(wanted, dict):
        assert list(loaded) == list(wanted)


@pytest.mark.parametrize("name", ["tensors", "view", "model", "scheme", "dtype"])
def test_saved_and_loaded(name, tmp_path):
    wanted = expected_objects()[name]
    flambeau.save(wanted, tmp_path / "a.pt")
    assert same(wanted, flambeau.load(tmp_path / "a.pt"))
    assert same(wanted, flambeau.load(tmp_path / "a.pt", mmap=True))


def streams(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()
                if name.endswith("data.pkl") or "/data/" in name}


@pytest.mark.parametrize("name", ["tensors", "view", "model", "scheme", "dtype"])
def test_files_hold_what_those_of_pytorch_do(name):
    """The same storages, byte for byte."""
    stream = io.BytesIO()
    flambeau.save(expected_objects()[name], stream)
    ours, theirs = streams(stream.getvalue()), streams(unpacked(name).getvalue())
    assert {n: d for n, d in ours.items() if n != "data.pkl"} == {n: d for n, d in theirs.items() if n != "data.pkl"}


def test_views_share_their_storage_in_files(tmp_path):
    q = scenarios.quantized(flambeau)["quint8"]
    flambeau.save([q, q[1]], tmp_path / "a.pt")
    whole, row = flambeau.load(tmp_path / "a.pt")
    row.fill_(1.0)
    assert whole[1].dequantize().tolist() == [1.0] * 4


@pytest.mark.parametrize(("parts", "text"), [
    ((flambeau.per_tensor_affine, 0.1), "scale and zero point"),
    ((flambeau.per_tensor_affine, 1, 2), "scale and zero point"),
    ((flambeau.per_tensor_affine, 0.1, 300), "zero point 300"),
    (("per_tensor_affine", 0.1, 3), "with the parts"),
    ((flambeau.per_channel_affine, flambeau.ones(2), flambeau.zeros(2).long(), 0), "scales or zero points"),
    ((flambeau.per_channel_affine, flambeau.ones(2).double(), flambeau.zeros(2).long(), 3), "with channels"),
    ((flambeau.per_channel_affine, flambeau.ones(3).double(), flambeau.zeros(3).long(), 0), "scales or zero points"),
    ((flambeau.per_channel_affine, flambeau.ones(2).double(), flambeau.tensor([0, 999]), 0), "zero point 999"),
])
def test_damaged_files_are_refused(parts, text):
    from flambeau._files.extent import PickleError
    from flambeau._files.quantized import rebuilt

    with pytest.raises(PickleError, match=text):
        rebuilt(flambeau.zeros(2, 2, dtype=flambeau.uint8), flambeau.quint8, parts)


def test_copies():
    for q in scenarios.quantized(flambeau).values():
        for again in (copy.copy(q), copy.deepcopy(q), pickle.loads(pickle.dumps(q))):
            assert again.equal(q) and repr(again) == repr(q)
        changed = copy.deepcopy(q)
        if q.numel():
            before = q.int_repr()
            changed.fill_(0.0)
            assert q.int_repr().equal(before)


# --- tensors ----------------------------------------------------------------------------------------------------------

def test_writes_through_views():
    q = scenarios.quantized(flambeau)["quint8"]
    q[0] = 1.0
    q.t()[1].copy_(flambeau.tensor([0.5, 0.5, 0.5]))
    assert q.dequantize()[0].tolist() == pytest.approx([1.0, 0.5, 1.0, 1.0])
    assert q.dequantize()[:, 1].tolist() == pytest.approx([0.5] * 3)


@pytest.mark.parametrize(("run", "error", "text"), [
    (lambda q: q + q, NotImplementedError, "add.*dequantize"),
    (lambda q: q @ q, NotImplementedError, "matmul.*dequantize"),
    (lambda q: q.tolist(), RuntimeError, "int_repr"),
    (lambda q: q.numpy(), TypeError, "int_repr"),
    (lambda q: q.q_per_channel_axis(), RuntimeError, "per_channel_affine, got torch.per_tensor_affine"),
    (lambda q: q.requires_grad_(), RuntimeError, "gradients"),
    (lambda q: q.float(), RuntimeError, "dequantize"),
    (lambda q: flambeau.ones(2).q_scale(), NotImplementedError, "not quantized"),
    (lambda q: flambeau.quantize_per_tensor(flambeau.ones(2).double(), 0.1, 0, flambeau.quint8), RuntimeError,
     "float32"),
    (lambda q: flambeau.quantize_per_tensor(flambeau.ones(2), 0.1, 256, flambeau.quint8), RuntimeError, "256"),
    (lambda q: flambeau.quantize_per_tensor(flambeau.ones(2), 0.1, 0, flambeau.int8), RuntimeError, "quint8"),
    (lambda q: flambeau.quantize_per_tensor(q, 0.1, 0, flambeau.quint8), RuntimeError, "already"),
    (lambda q: flambeau.quantize_per_channel(flambeau.ones(2, 2), flambeau.ones(3), flambeau.zeros(3).long(), 0,
                                             flambeau.qint8), RuntimeError, "2 channels"),
    (lambda q: flambeau.empty(2, dtype=flambeau.quint8), NotImplementedError, "scale"),
    (lambda q: flambeau.fake_quantize_per_tensor_affine(flambeau.ones(2), 0.1, 0, 5, 1), RuntimeError, "quant_min"),
    (lambda q: flambeau.fake_quantize_per_tensor_affine(flambeau.ones(2), 0.1, 9, 0, 5), RuntimeError, "zero_point 9"),
])
def test_refusals(run, error, text):
    with pytest.raises(error, match=text):
        run(scenarios.quantized(flambeau)["quint8"])


def test_channels_that_would_mix_are_refused():
    q = scenarios.quantized(flambeau)["channels"]
    for run in (lambda: q.repeat(2, 1).view(2, 3, 4), lambda: q[flambeau.tensor([[0, 1], [1, 0]]), 0],
                lambda: flambeau.cat([q, q]), lambda: q.relu()):
        with pytest.raises((RuntimeError, NotImplementedError), match="channel"):
            run()
    assert q.flatten().dequantize().equal(q.dequantize().flatten())
    assert q.t().q_per_channel_axis() == 1 and q.t().dequantize().equal(q.dequantize().t())
    assert q[1:].dequantize().equal(q.dequantize()[1:]) and q[:, 2].dequantize().equal(q.dequantize()[:, 2])


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64])
def test_gradients_of_learned_scales_are_those_of_straight_through_rounding(dtype):
    x = flambeau.randn(20, dtype=dtype, requires_grad=True)
    scale = flambeau.tensor([0.1], dtype=dtype, requires_grad=True)
    zero = flambeau.tensor([3.0], dtype=dtype, requires_grad=True)
    y = flambeau._fake_quantize_learnable_per_tensor_affine(x, scale, zero, 0, 30)
    assert y.dtype is dtype
    code = (x.detach() / 0.1).round() + 3
    inside = (code >= 0) & (code <= 30)
    grads = flambeau.autograd.grad(y.sum(), (x, zero))
    assert grads[0].equal(inside.to(dtype))
    assert grads[1].item() == pytest.approx(-0.1 * (~inside).sum().item(), rel=1e-6)


def test_half_precision_fake_quantization():
    x = flambeau.tensor([0.26, -9.0, 9.0])
    for dtype in (flambeau.float16, flambeau.bfloat16):
        y = flambeau.fake_quantize_per_tensor_affine(x.to(dtype), 0.25, 0, -8, 8)
        assert y.tolist() == [0.25, -2.0, 2.0] and y.dtype is dtype


# --- the int8 kernel --------------------------------------------------------------------------------------------------

def reference(x, w, bias, reduce_range):
    scale, zero = flambeau._choose_qparams_per_tensor(x, reduce_range)
    codes = flambeau.ops.OPS["_quantized_codes"](x, flambeau.tensor(scale), flambeau.tensor(float(zero)), 0,
                                                 127 if reduce_range else 255).double() - zero
    if w.qscheme() is flambeau.per_tensor_affine:
        weight, scales = w.int_repr().double() - w.q_zero_point(), flambeau.tensor([w.q_scale()]).double()
    else:
        weight = w.int_repr().double() - w.q_per_channel_zero_points().double()[:, None]
        scales = w.q_per_channel_scales()
    found = (codes @ weight.t()) * scale * scales
    return found if bias is None else found + bias


@pytest.mark.parametrize("reduce_range", [True, False])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (1, 5, 31), (2, 16, 32), (3, 17, 33), (1, 4, 64), (5, 31, 200),
                                           (2, 3, 1000), (70, 40, 96)])
def test_sums_are_exact(m, n, k, reduce_range):
    """Extreme codes too, whose products in pairs would not fit into 16 bits without care."""
    from flambeau._quantized.packed import pack_linear

    flambeau.manual_seed(m + n + k)
    for kind in ("random", "extreme", "channels"):
        x, w = flambeau.randn(m, k), flambeau.randn(n, k)
        if kind == "extreme":
            x, w = flambeau.where(x > -0.5, 2.0, 0.0), flambeau.where(w > 1, 1.0, -1.0)
        if kind == "channels":
            q = flambeau.quantize_per_channel(w, flambeau.linspace(0.01, 0.03, n), flambeau.arange(n) % 7 - 3, 0,
                                              flambeau.qint8)
        else:
            q = flambeau.quantize_per_tensor(w, w.abs().max().item() / 127.5, -3 if kind == "random" else 0,
                                             flambeau.qint8)
        bias = flambeau.randn(n) if m % 2 else None
        found = pack_linear(q, bias).dynamic(x, reduce_range).double()
        expected = reference(x, q, bias, reduce_range)
        assert (found - expected).abs().max().item() <= 2e-6 * max(1.0, expected.abs().max().item()), kind


def test_threads_do_not_matter():
    layer = flambeau.ao.nn.quantized.dynamic.Linear.from_float(nn.Linear(700, 900))
    x, threads = flambeau.randn(40, 700), flambeau.get_num_threads()
    results = []
    for count in (1, 2):
        flambeau.set_num_threads(count)
        results.append(layer(x))
    flambeau.set_num_threads(threads)
    assert results[0].equal(results[1])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_without_a_scale_are_refused(value):
    layer = flambeau.ao.nn.quantized.dynamic.Linear.from_float(nn.Linear(40, 2))
    x = flambeau.ones(2, 40)
    for place in ((0, 0), (1, 39)):
        x[place] = value
        with pytest.raises(RuntimeError, match="infinity or NaN"):
            layer(x)
        x[place] = 1.0


def test_weight_only_products_in_every_dtype():
    w = flambeau.randint(-128, 128, (19, 37), dtype=flambeau.int8)
    for dtype, rel in ((flambeau.float32, 1e-5), (flambeau.bfloat16, 1e-2), (flambeau.float16, 2e-3)):
        x, scales = flambeau.randn(3, 37).to(dtype), flambeau.rand(19).to(dtype)
        found = flambeau._weight_int8pack_mm(x, w, scales)
        expected = (x.double() @ w.double().t()) * scales.double()
        assert found.dtype is dtype
        assert (found.double() - expected).abs().max() <= rel * expected.abs().max()


# --- layers -----------------------------------------------------------------------------------------------------------

def small():
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Sequential(nn.Linear(5, 4)), nn.LSTM(4, 3))


def kinds(model):
    return [type(m) for m in model.modules() if not isinstance(m, nn.Sequential) and "Packed" not in type(m).__name__]


def test_which_layers_are_exchanged():
    from flambeau.ao.nn.quantized import dynamic
    from flambeau.ao.quantization import default_dynamic_qconfig, quantize_dynamic

    model = small()
    assert kinds(quantize_dynamic(model)) == [dynamic.Linear, nn.ReLU, dynamic.Linear, dynamic.LSTM]
    assert kinds(model) == [nn.Linear, nn.ReLU, nn.Linear, nn.LSTM] and not hasattr(model[0], "qconfig")
    assert kinds(quantize_dynamic(model, {nn.Linear})) == [dynamic.Linear, nn.ReLU, dynamic.Linear, nn.LSTM]
    assert kinds(quantize_dynamic(model, {"2.0"})) == [nn.Linear, nn.ReLU, dynamic.Linear, nn.LSTM]
    assert kinds(quantize_dynamic(model, {"2": default_dynamic_qconfig})) == [nn.Linear, nn.ReLU, dynamic.Linear,
                                                                             nn.LSTM]
    halves = quantize_dynamic(model, dtype=flambeau.float16)
    assert halves[0].weight().dtype is flambeau.float16 and halves[3].get_weight()["weight_ih_l0"].dtype is \
        flambeau.float16
    assert quantize_dynamic(model, inplace=True) is model and kinds(model)[0] is dynamic.Linear


def test_state_of_layers():
    from flambeau.ao.quantization import quantize_dynamic

    first, second = (quantize_dynamic(small()) for _ in range(2))
    x = flambeau.randn(3, 6)
    assert not first(x)[0].equal(second(x)[0])
    assert second.load_state_dict(first.state_dict()) == ([], [])
    assert first(x)[0].equal(second(x)[0])
    assert copy.deepcopy(first)(x)[0].equal(first(x)[0])
    with pytest.raises(RuntimeError, match="_packed_params"):
        second[0].load_state_dict({"scale": flambeau.tensor(1.0), "zero_point": flambeau.tensor(0)})


def test_hooks_stay():
    from flambeau.ao.quantization import quantize_dynamic

    seen = []
    model = nn.Sequential(nn.Linear(2, 2))
    model[0].register_forward_hook(lambda *args: seen.append("after"))
    quantize_dynamic(model)(flambeau.ones(1, 2))
    assert seen == ["after"]


def test_the_old_place():
    assert flambeau.quantization.quantize_dynamic is flambeau.ao.quantization.quantize_dynamic
    importlib.import_module("flambeau.nn.quantized.dynamic")
    assert flambeau.nn.quantized.dynamic.Linear is flambeau.ao.nn.quantized.dynamic.Linear


def test_layer_refusals():
    layer = flambeau.ao.nn.quantized.dynamic.Linear(3, 2)
    for x, text in ((flambeau.ones(3), "2 dimensions"), (flambeau.ones(1, 3).half(), "float32"),
                    (flambeau.ones(1, 4), "3 features")):
        with pytest.raises(RuntimeError, match=text):
            layer(x)
    with pytest.raises(RuntimeError, match="qint8 or float16"):
        flambeau.ao.nn.quantized.dynamic.Linear(3, 2, dtype=flambeau.quint8)
    with pytest.raises(NotImplementedError, match="packed sequences"):
        flambeau.ao.nn.quantized.dynamic.LSTM(3, 2)(nn.utils.rnn.pack_sequence([flambeau.ones(2, 3)]))


def test_observers_that_have_seen_nothing():
    q = flambeau.ao.quantization
    for observer in (q.MinMaxObserver(), q.PerChannelMinMaxObserver(), q.HistogramObserver()):
        with pytest.warns(UserWarning, match="nothing was seen"):
            scale, zero_point = observer.calculate_qparams()
        assert scale.tolist() == [1.0] and zero_point.tolist() == [0]
    for observer in (q.PlaceholderObserver(), q.NoopObserver(), q.RecordingObserver(), q.ReuseInputObserver()):
        x = flambeau.ones(2)
        assert observer(x) is x
        with pytest.raises(RuntimeError, match="Observer"):
            observer.calculate_qparams()


def test_observers_forget():
    q = flambeau.ao.quantization
    for observer in (q.MinMaxObserver(), q.PerChannelMinMaxObserver(), q.HistogramObserver()):
        first = [t.tolist() for t in _after(observer, 2.0)]
        _after(observer, 100.0)
        observer.reset_min_max_vals()
        assert [t.tolist() for t in _after(observer, 2.0)] == first


def _after(observer, scale):
    observer(scenarios.numbers(flambeau, 4, 5, scale=scale))
    return observer.calculate_qparams()


def test_names_of_configurations():
    q = flambeau.ao.quantization
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in dir(q):
            if name.endswith("_qconfig") and name.startswith(("default", "per_channel", "float")):
                for make in getattr(q, name):
                    assert isinstance(make(), nn.Module), name
    assert q.qconfig_equals(q.default_dynamic_qconfig, q.QConfig(
        q.PlaceholderObserver.with_args(dtype=flambeau.quint8, quant_min=0, quant_max=255, is_dynamic=True),
        q.MinMaxObserver.with_args(dtype=flambeau.qint8, qscheme=flambeau.per_tensor_symmetric)))
    assert not q.qconfig_equals(q.default_dynamic_qconfig, q.default_qconfig)


@pytest.mark.parametrize(("file", "options", "dtype"), [
    ("torch_lstm.pt", {"num_layers": 2, "bidirectional": True}, flambeau.qint8),
    ("torch_lstm_half.pt", {}, flambeau.float16)])
def test_states_of_pytorchs_dynamic_lstm_are_read(file, options, dtype):
    """The same names, and packed weights as data; the outputs are those that PyTorch computed."""
    saved = flambeau.load(Path(__file__).parent / file)
    make = flambeau.ao.quantization.quantize_dynamic
    model = make(nn.Sequential(nn.LSTM(3, 5, **options)), {nn.LSTM}, dtype=dtype)
    assert list(model.state_dict()) == list(saved["state"])
    model.load_state_dict(saved["state"])
    assert (model[0](saved["x"])[0] - saved["y"]).abs().max().item() < 2e-7


@pytest.mark.parametrize("state", [1, ((), "x"), (None, "__torch__.torch.classes.rnn.CellParamsBase"), ((), None, 2)])
def test_packed_weights_of_other_kinds_are_no_data(state, tmp_path):
    stream = b"\x80\x02ctorch\nScriptObject\n)\x81" + pickle.dumps(state, 2)[2:-1] + b"b."
    with zipfile.ZipFile(tmp_path / "m.pt", "w") as archive:
        archive.writestr("m/data.pkl", stream)
        archive.writestr("m/version", "3")
    with pytest.raises(RuntimeError, match="ScriptObject with the state"):
        flambeau.load(tmp_path / "m.pt")
