"""What users write out becomes one operator where they allow other rounding, and nowhere else."""

import math

import pytest

import flambeau
from flambeau import nn
from flambeau.nn import functional as F


def vectors():
    return flambeau.linspace(0.5, 1.5, 48), flambeau.linspace(-1, 1, 48)


def softmax(x):
    e = flambeau.exp(x - x.max(dim=-1, keepdim=True).values)
    return e / flambeau.sum(e, dim=1, keepdim=True)


def layer_norm(x):
    weight, bias = vectors()
    mean = x.mean(-1, keepdim=True)
    var = ((x - mean) ** 2).mean(-1, keepdim=True)
    return bias + (x - mean) / flambeau.sqrt(var + 1e-5) * weight


def normalised_by_a_variance(x):
    return (x - x.mean(dim=-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + 1e-6) ** 0.5


def rms_norm(x):
    return vectors()[0] * (x * flambeau.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


WRITTEN = {
    "softmax": softmax, "layer_norm": layer_norm, "layer_norm, plain": normalised_by_a_variance, "rms_norm": rms_norm,
    "log_softmax": lambda x: x - x.logsumexp(-1, keepdim=True),
    "log_softmax, of a softmax": lambda x: flambeau.log(F.softmax(x, -1)),
    "gelu": lambda x: 0.5 * x * (1 + flambeau.erf(x / math.sqrt(2.0))),
    "gelu, halved last": lambda x: x * (1 + flambeau.erf(x * 0.70710678)) * 0.5,
    "gelu, tanh": lambda x: 0.5 * x * (1.0 + flambeau.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))),
    "gelu, tanh by pow": lambda x: x * (0.5 * (1.0 + flambeau.tanh((0.044715 * flambeau.pow(x, 3.0) + x)
                                                                   * 0.7978845608))),
    "silu": lambda x: x * flambeau.sigmoid(x), "silu, by exp": lambda x: x / (1 + flambeau.exp(-x)),
}


def steps(fn, *args, **options):
    report = flambeau.compile(fn, options=options or None).report(*args)
    return [name for step in report.steps for name in step.names if name not in ("linspace", "arange")]


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64])
@pytest.mark.parametrize("name", WRITTEN)
def test_is_one_operator(name, dtype):
    fn = WRITTEN[name]
    x = flambeau.randn(5, 48, dtype=dtype)
    fast = flambeau.compile(fn, options={"fast_math": True})
    if dtype is flambeau.float32 or name not in ("layer_norm", "rms_norm"):  # their vectors are float32
        assert steps(fn, x, fast_math=True) == [name.partition(",")[0]]
    assert len(steps(fn, x)) > 1 or "softmax" in name
    flambeau.testing.assert_close(fast(x), fn(x), atol=3e-6, rtol=1e-5)


@pytest.mark.parametrize("fn", [
    lambda x: 0.5 * x * (1 + flambeau.erf(x * 0.7)), lambda x: 0.4 * x * (1 + flambeau.erf(x * 0.70710678)),
    lambda x: x * flambeau.sigmoid(x + 0), lambda x: (x - x.amax(0, keepdim=True)).exp() / x.exp().sum(0, keepdim=True),
    lambda x: (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-6).sqrt(),
    lambda x: x * (x[:1].sigmoid()), lambda x: x.to(flambeau.int32) * x.to(flambeau.int32)])
def test_what_is_something_else_stays(fn):
    x = flambeau.randn(5, 48)
    known = {"gelu", "silu", "softmax", "layer_norm", "rms_norm", "log_softmax"}
    assert not known & set(steps(fn, x, fast_math=True))
    assert flambeau.equal(flambeau.compile(fn, options={"fast_math": True})(x), fn(x))


def test_what_others_read_is_kept():
    def fn(x):
        gate = flambeau.sigmoid(x)
        return x * gate, gate
    assert "silu" not in steps(fn, flambeau.randn(3, 4), fast_math=True)


def test_numbers_and_sizes_belong_to_a_plan():
    def norm(x, eps):
        return (x - x.mean(-1, keepdim=True)) * (x.var(-1, False, keepdim=True) + eps).rsqrt()
    fast = flambeau.compile(norm, options={"fast_math": True})
    for size, eps in ((8, 1e-5), (8, 1.0), (16, 1e-5), (8, 1e-5)):
        x = flambeau.randn(3, size)
        flambeau.testing.assert_close(fast(x, eps), F.layer_norm(x, (size,), eps=eps), atol=1e-6, rtol=1e-5)


def test_a_module_and_its_gradients():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 8)

        def forward(self, x):
            h = self.a(x)
            return self.b(h * 0.5 * (1 + flambeau.erf(h / 2 ** 0.5)))
    flambeau.manual_seed(0)
    net, x = Net(), flambeau.randn(4, 8)
    net(x).sum().backward()
    wanted = [p.grad for p in net.parameters()]
    net.zero_grad()
    flambeau.compile(lambda: net(x).sum().backward(), options={"fast_math": True})()
    for p, grad in zip(net.parameters(), wanted, strict=True):
        flambeau.testing.assert_close(p.grad, grad)
    plain = net(x).detach()
    net.compile(options={"fast_math": True})
    with flambeau.no_grad():
        flambeau.testing.assert_close(net(x), plain)
        assert "_linear_tail, then gelu" in str(flambeau.compiler.report(net, x))


def test_other_options_are_named(recwarn):
    flambeau.compile(lambda x: x, options={"fast_math": True, "max_autotune_of_a_test": True})
    assert "max_autotune_of_a_test" in str(recwarn[0].message) and "fast_math" not in str(recwarn[0].message)
