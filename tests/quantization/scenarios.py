"""Programs on quantized tensors and layers that any implementation of PyTorch's API can run.

`python tests/quantization/scenarios.py` writes golden.json with the installed PyTorch; the tests run the same here.
"""

import base64
import io
import json
import warnings
from math import sin
from pathlib import Path

GOLDEN = Path(__file__).with_name("golden.json")


def numbers(torch, *shape, scale=3.0, start=0):
    """The same float32 numbers everywhere."""
    count = 1
    for n in shape:
        count *= n
    values = [scale * sin(12.9898 * (k + start) + 0.3 * (k + start) ** 2) for k in range(count)]
    return torch.tensor(values, dtype=torch.float32).reshape(shape)


def quantized(torch):
    """{name: quantized tensor} of every dtype and scheme."""
    x = numbers(torch, 3, 4)
    scales, zeros = torch.tensor([0.1, 0.05, 0.3]), torch.tensor([3, 0, 7])
    return {
        "quint8": torch.quantize_per_tensor(x, 0.05, 60, torch.quint8),
        "qint8": torch.quantize_per_tensor(x, 0.03, -5, torch.qint8),
        "qint32": torch.quantize_per_tensor(x, 1e-4, 17, torch.qint32),
        "tensor arguments": torch.quantize_per_tensor(x, torch.tensor(0.05), torch.tensor(60), torch.quint8),
        "channels": torch.quantize_per_channel(x, scales, zeros, 0, torch.qint8),
        "channels quint8": torch.quantize_per_channel(x, scales, zeros, 0, torch.quint8),
        "last axis": torch.quantize_per_channel(x, torch.tensor([0.1, 0.2, 0.3, 0.4]), torch.tensor([1, 2, 3, 4]), 1,
                                                torch.quint8),
        "float zero points": torch.quantize_per_channel(x, scales, torch.tensor([3.5, 0.25, 7.0]), 0, torch.quint8),
        "dynamic": torch.quantize_per_tensor_dynamic(x, torch.quint8, False),
        "dynamic reduced": torch.quantize_per_tensor_dynamic(x, torch.quint8, True),
        "dynamic qint8": torch.quantize_per_tensor_dynamic(x, torch.qint8, False),
        "from codes": torch._make_per_tensor_quantized_tensor(torch.tensor([1, 2, 255], dtype=torch.uint8), 0.5, 1),
        "scalar": torch.quantize_per_tensor(torch.tensor(1.5), 0.5, 1, torch.quint8),
        "empty": torch.quantize_per_tensor(torch.zeros(0, 2), 0.5, 1, torch.quint8),
    }


def described(q):
    """What a quantized tensor is, as plain data."""
    found = [q.int_repr().tolist(), q.dequantize().tolist(), str(q.dtype), str(q.qscheme()), list(q.stride())]
    if "channel" in str(q.qscheme()):
        return [*found, q.q_per_channel_scales().tolist(), q.q_per_channel_zero_points().tolist(),
                q.q_per_channel_axis()]
    return [*found, q.q_scale(), q.q_zero_point()]


def tensors_run(torch):
    return {name: [described(q), repr(q), q.type(), q.element_size(), q.is_quantized]
            for name, q in quantized(torch).items()}


def rounding_run(torch):
    """Codes of numbers halfway between two codes, and far outside."""
    x = (torch.arange(-400, 400).float() + 0.5) * 0.1
    x = torch.cat([x, torch.tensor([1e9, -1e9, 0.0, -0.0, 3e38, 1e-40])])
    return [torch.quantize_per_tensor(x, 0.1, z, dtype).int_repr().tolist()
            for z, dtype in ((3, torch.quint8), (-7, torch.qint8))]


OPERATORS = {
    "view": lambda t, q: q.view(12), "reshape": lambda t, q: q.reshape(4, 3), "t": lambda t, q: q.t(),
    "select": lambda t, q: q[1], "slice": lambda t, q: q[:, 1:3], "mask": lambda t, q: q[q.dequantize() > 0],
    "flatten": lambda t, q: q.flatten(), "transpose": lambda t, q: q.transpose(0, 1),
    "permute": lambda t, q: q.permute(1, 0), "unsqueeze": lambda t, q: q.unsqueeze(1),
    "squeeze": lambda t, q: q[None].squeeze(0), "expand": lambda t, q: q.expand(2, 3, 4),
    "repeat": lambda t, q: q.repeat(2, 1), "flip": lambda t, q: q.flip(0), "clone": lambda t, q: q.clone(),
    "contiguous": lambda t, q: q.t().contiguous(), "cat": lambda t, q: t.cat([q, q]),
    "stack": lambda t, q: t.stack([q, q]), "split": lambda t, q: q.split(2)[0], "chunk": lambda t, q: q.chunk(2)[1],
    "unbind": lambda t, q: q.unbind(0)[2], "index_select": lambda t, q: q.index_select(0, t.tensor([2, 0])),
    "relu": lambda t, q: q.relu(), "clamp": lambda t, q: t.clamp(q, -1, 1.5),
    "hardtanh": lambda t, q: t.nn.functional.hardtanh(q), "relu6": lambda t, q: t.nn.functional.relu6(q),
    "sigmoid": lambda t, q: q.sigmoid(), "tanh": lambda t, q: q.tanh(), "mean": lambda t, q: q.mean(),
    "max": lambda t, q: q.max(), "min": lambda t, q: q.min(), "sort": lambda t, q: q.sort()[0],
    "topk": lambda t, q: q.topk(2)[0], "leaky_relu": lambda t, q: t.nn.functional.leaky_relu(q),
    "hardsigmoid": lambda t, q: t.nn.functional.hardsigmoid(q),
    "max_pool2d": lambda t, q: t.nn.functional.max_pool2d(q[None, None], 2),
    "avg_pool2d": lambda t, q: t.nn.functional.avg_pool2d(q[None, None], 2),
    "upsampled": lambda t, q: t.nn.functional.interpolate(q[None, None], scale_factor=2),
    "masked_fill": lambda t, q: q.masked_fill(q.dequantize() > 0, 1.0),
    "fill_": lambda t, q: q.clone().fill_(1.03), "copy_": lambda t, q: q.clone().copy_(q.dequantize() * 0.5),
    "ones_like": lambda t, q: t.ones_like(q), "detach": lambda t, q: q.detach(),
}


def operators_run(torch):
    return {name: described(f(torch, quantized(torch)["quint8"])) for name, f in OPERATORS.items()}


CHANNEL_OPERATORS = {
    "clone": lambda t, q: q.clone(), "unsqueeze": lambda t, q: q.unsqueeze(-1), "row": lambda t, q: q[1],
    "contiguous": lambda t, q: q.contiguous(), "detach": lambda t, q: q.detach(),
}


def channel_operators_run(torch):
    return {name: described(f(torch, quantized(torch)["channels"])) for name, f in CHANNEL_OPERATORS.items()}


def comparisons_run(torch):
    q = quantized(torch)["quint8"]
    return [(q == q.flip(1)).tolist(), (q > 1).tolist(), torch.equal(q, q.clone()), torch.equal(q, q.flip(0)),
            q[0, 0].item(), len(q), [list(p.shape) for p in q]]


def fake_run(torch):
    """Results and gradients of fake quantization."""
    found = []
    x, g = numbers(torch, 4, 5, scale=9.0), numbers(torch, 4, 5, start=50)
    for z, low, high in ((0, -128, 127), (3, 0, 127), (100, 0, 255)):
        y = x.clone().requires_grad_()
        out = torch.fake_quantize_per_tensor_affine(y, 0.07, z, low, high)
        out.backward(g)
        found.append([out.tolist(), y.grad.tolist()])
    for axis, n in ((0, 4), (1, 5)):
        y = x.clone().requires_grad_()
        out = torch.fake_quantize_per_channel_affine(y, torch.linspace(0.03, 0.2, n),
                                                     torch.arange(n, dtype=torch.int32), axis, 0, 127)
        out.backward(g)
        found.append([out.tolist(), y.grad.tolist()])
    for z, factor in ((3.0, 1.0), (3.4, 0.5), (300.0, 1.0)):
        leaves = [t.requires_grad_() for t in (x.clone(), torch.tensor([0.1]), torch.tensor([z]))]
        out = torch._fake_quantize_learnable_per_tensor_affine(*leaves, 0, 127, factor)
        found.append([out.tolist(), *(t.tolist() for t in torch.autograd.grad(out, leaves, g))])
    leaves = [t.requires_grad_() for t in (x.clone(), torch.linspace(0.03, 0.2, 4), torch.tensor([1.0, 9.0, 3.3, 0.0]))]
    out = torch._fake_quantize_learnable_per_channel_affine(*leaves, 0, 0, 127, 1.0)
    found.append([out.tolist(), *(t.tolist() for t in torch.autograd.grad(out, leaves, g))])
    return found


OBSERVERS = [
    ("MinMaxObserver", {}), ("MinMaxObserver", {"dtype": "qint8", "qscheme": "per_tensor_symmetric"}),
    ("MinMaxObserver", {"dtype": "quint8", "qscheme": "per_tensor_symmetric"}),
    ("MinMaxObserver", {"reduce_range": True}), ("MinMaxObserver", {"quant_min": 0, "quant_max": 127}),
    ("MinMaxObserver", {"dtype": "qint8", "reduce_range": True}), ("MinMaxObserver", {"dtype": "qint32"}),
    ("MinMaxObserver", {"dtype": "quint8", "qscheme": "per_tensor_symmetric", "quant_min": 0, "quant_max": 127}),
    ("MovingAverageMinMaxObserver", {}), ("MovingAverageMinMaxObserver", {"averaging_constant": 0.5}),
    ("PerChannelMinMaxObserver", {}), ("PerChannelMinMaxObserver", {"ch_axis": 1}),
    ("PerChannelMinMaxObserver", {"dtype": "qint8", "qscheme": "per_channel_symmetric"}),
    ("PerChannelMinMaxObserver", {"qscheme": "per_channel_affine_float_qparams"}),
    ("MovingAveragePerChannelMinMaxObserver", {"averaging_constant": 0.3, "ch_axis": 1}),
    ("HistogramObserver", {}), ("HistogramObserver", {"bins": 128, "reduce_range": True}),
    ("HistogramObserver", {"dtype": "qint8", "qscheme": "per_tensor_symmetric"}),
]


def options_of(torch, options):
    return {k: getattr(torch, v) if isinstance(v, str) else v for k, v in options.items()}


def observers_run(torch):
    """Scale and zero point after one batch, and after three."""
    found = []
    for name, options in OBSERVERS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            observer = getattr(torch.ao.quantization, name)(**options_of(torch, options))
        steps = []
        for k in range(3):
            observer(numbers(torch, 6, 8, scale=1.0 + k, start=100 * k))
            steps.append([t.tolist() for t in observer.calculate_qparams()])
        found.append([steps, sorted(observer.state_dict()), observer.quant_min, observer.quant_max])
    return found


FAKES = ["default_fake_quant", "default_weight_fake_quant", "default_per_channel_weight_fake_quant",
         "default_fused_act_fake_quant", "default_fused_per_channel_wt_fake_quant", "default_dynamic_fake_quant",
         "default_fixed_qparams_range_0to1_fake_quant", "default_histogram_fake_quant", "default_embedding_fake_quant"]


def fakes_run(torch):
    found = []
    for name in FAKES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fake = getattr(torch.ao.quantization, name)()
        steps = [fake(numbers(torch, 5, 6, scale=1.0 + k, start=9 * k)).tolist() for k in range(2)]
        torch.ao.quantization.disable_observer(fake)
        steps.append(fake(numbers(torch, 5, 6, scale=4.0)).tolist())
        torch.ao.quantization.disable_fake_quant(fake)
        steps.append(fake(numbers(torch, 5, 6, scale=4.0)).tolist())
        found.append([steps, fake.scale.tolist(), fake.zero_point.tolist(), sorted(fake.state_dict())])
    return found


def layer(torch, n, k, bias=True):
    made = torch.nn.Linear(k, n, bias=bias)
    with torch.no_grad():
        made.weight.copy_(numbers(torch, n, k, scale=0.5))
        if bias:
            made.bias.copy_(numbers(torch, n, start=7))
    return made


def dynamic_run(torch):
    """Outputs of dynamic quantized linear layers."""
    q = torch.ao.quantization
    found = []
    for n, k, shape, bias in ((3, 5, (2, 5), True), (17, 70, (1, 70), True), (33, 64, (4, 3, 64), False),
                              (16, 129, (5, 129), True), (8, 32, (0, 32), True)):
        x = numbers(torch, *shape, scale=2.0, start=3)
        for spec in ({torch.nn.Linear: q.default_dynamic_qconfig}, {torch.nn.Linear: q.per_channel_dynamic_qconfig},
                     {torch.nn.Linear: q.float16_dynamic_qconfig}):
            model = q.quantize_dynamic(torch.nn.Sequential(layer(torch, n, k, bias)), spec)
            found.append(model(x).tolist())
    found.append(q.quantize_dynamic(torch.nn.Sequential(layer(torch, 4, 6)))(numbers(torch, 3, 6).abs() + 0.2).tolist())
    found.append(q.quantize_dynamic(torch.nn.Sequential(layer(torch, 4, 6)))(torch.zeros(3, 6)).tolist())
    found.append(q.quantize_dynamic(torch.nn.Sequential(layer(torch, 4, 6)))(numbers(torch, 3, 6) * 1e-6).tolist())
    return found


def lstm_run(torch):
    """Outputs of dynamic quantized LSTMs."""
    found = []
    for options in ({}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True}):
        model = torch.nn.LSTM(6, 5, **options)
        with torch.no_grad():
            for k, p in enumerate(model.parameters()):
                p.copy_(numbers(torch, *p.shape, scale=0.4, start=13 * k))
        quantized = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(model))[0]
        y, (h, c) = quantized(numbers(torch, 4, 3, 6))
        found.append([y.tolist(), h.tolist(), c.tolist()])
    return found


def weight_only_run(torch):
    codes = (numbers(torch, 16, 32) * 40).round().clamp(-128, 127).to(torch.int8)
    return torch._weight_int8pack_mm(numbers(torch, 4, 32).bfloat16(), codes,
                                     torch.linspace(0.01, 0.05, 16).bfloat16()).float().tolist()


def qparams_run(torch):
    """Scale and zero point that dynamic quantization chooses."""
    samples = [numbers(torch, 50), numbers(torch, 50).abs(), -numbers(torch, 50).abs(), torch.zeros(3),
               torch.tensor([1e-7, 0.0]), torch.tensor([-1e-7, 2e-7]), torch.tensor([-1e-6]), torch.tensor([5.0]),
               torch.tensor([-1e30, 1e30])]
    return [torch._choose_qparams_per_tensor(x, reduced) for x in samples for reduced in (False, True)]


def files(torch):
    """Saved files, as text."""
    model = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(layer(torch, 4, 6), layer(torch, 2, 4, False)))
    saved = {"tensors": quantized(torch), "view": quantized(torch)["quint8"][1:, ::2], "model": model.state_dict(),
             "scheme": torch.per_tensor_affine, "dtype": torch.qint8}
    found = {}
    for name, value in saved.items():
        with io.BytesIO() as stream:
            torch.save(value, stream)
            found[name] = base64.b85encode(stream.getvalue()).decode()
    return found


RUNS = {"tensors": tensors_run, "rounding": rounding_run, "operators": operators_run,
        "channel operators": channel_operators_run, "comparisons": comparisons_run, "fake": fake_run,
        "observers": observers_run, "fakes": fakes_run, "dynamic": dynamic_run, "lstm": lstm_run,
        "weight only": weight_only_run, "qparams": qparams_run}


if __name__ == "__main__":
    import torch

    warnings.simplefilter("ignore")
    torch.set_printoptions(sci_mode=None)
    golden = {name: run(torch) for name, run in RUNS.items()}
    golden["files"] = files(torch)
    GOLDEN.write_text(json.dumps(golden, separators=(",", ":")) + "\n")
