"""What NVIDIA's libraries are asked for, on a GPU: their numbers beside the CPU's, and that it was they who computed.

`pytest tests/cuda/test_on_gpu_libraries.py -n 0` where there is one; elsewhere all of it is skipped with one line.
"""

import pytest

import flambeau as fb
from flambeau import _C, nn
from flambeau.nn import functional as F

if not fb.cuda.is_available():
    pytest.skip("no GPU is here", allow_module_level=True)

HALVES = (fb.float16, fb.bfloat16)
NEAR = {fb.float32: 1e-4, fb.float64: 1e-9, fb.float16: 1e-2, fb.bfloat16: 5e-2, fb.float8_e4m3fn: 0.1}


def counted(f):
    """(result, calls of libraries, kernels of our own) of a call whose plans are made."""
    f()
    before = _C._cuda.plan_counts()
    result, after = f(), _C._cuda.plan_counts()
    return result, after["libraries"] - before["libraries"], after["launches"] - before["launches"]


def close(found, expected, near=None):
    near = near or NEAR[found.dtype]
    found, expected = found.detach().cpu().double(), expected.detach().cpu().double()
    return found.shape == expected.shape and fb.allclose(found, expected, rtol=near, atol=near * expected.abs().max())


@pytest.fixture(autouse=True)
def same_numbers():
    fb.manual_seed(0)


@pytest.mark.parametrize("dtype", (fb.float32, *HALVES), ids=str)
@pytest.mark.parametrize("activation", ("relu", "gelu_tanh"))
def test_an_activation_is_part_of_the_product(activation, dtype):
    x, w, b = fb.randn(64, 128), fb.randn(256, 128), fb.randn(256)
    there = [t.to("cuda", dtype) for t in (x, w, b)]
    tail = fb.ops.aten._linear_tail.default
    found, calls, launches = counted(lambda: tail(*there, None, activation, False))
    near = [t.to(dtype).float() for t in (x, w, b)]
    expected = F.linear(*near)
    expected = F.relu(expected) if activation == "relu" else F.gelu(expected, approximate="tanh")
    assert close(found, expected) and (calls, launches) == (1, 0)


@pytest.mark.parametrize("dtype", (fb.float32, *HALVES), ids=str)
def test_a_bias_s_gradient_is_part_of_the_product(dtype):
    g, x, w = fb.randn(64, 256), fb.randn(64, 128), fb.randn(256, 128)
    there = [t.to("cuda", dtype) for t in (g, x, w)]
    backward = fb.ops.aten.linear_backward.default
    found, calls, launches = counted(lambda: backward(*there, 7))
    expected = backward(*(t.to(dtype).float() for t in (g, x, w)), 7)
    assert all(map(close, found, expected)) and (calls, launches) == (2, 0)


@pytest.mark.parametrize("by_row", (False, True))
@pytest.mark.parametrize("out", (fb.float32, *HALVES, fb.float8_e4m3fn), ids=str)
@pytest.mark.parametrize("kinds", ("44", "45", "54"))
def test_8_bit_floats_are_multiplied_as_they_are(kinds, out, by_row):
    """Fails on GPUs before Ada, and by row before Hopper or CUDA 12.9: there the product is of bfloat16."""
    left, right = ({"4": fb.float8_e4m3fn, "5": fb.float8_e5m2}[kind] for kind in kinds)
    a, b = fb.randn(48, 64).to(left), fb.randn(32, 64).to(right)
    scales = (fb.rand(48, 1) + 0.5, fb.rand(1, 32) + 0.5) if by_row else (fb.tensor(0.5), fb.tensor(0.25))
    bias = None if out == fb.float32 else fb.randn(32).to(fb.float16 if out == fb.float16 else fb.bfloat16)
    expected = fb._scaled_mm(a, b.t(), *scales, bias, out_dtype=fb.float32)
    there = [None if t is None else t.cuda() for t in (a, b, *scales, bias)]
    found, calls, launches = counted(lambda: fb._scaled_mm(there[0], there[1].t(), *there[2:], out_dtype=out))
    assert found.dtype == out and close(found, expected, NEAR[out]) and (calls, launches) == (1, 0)


RECURRENT = {"LSTM": nn.LSTM, "GRU": nn.GRU, "tanh": nn.RNN,
             "relu": lambda *sizes, **more: nn.RNN(*sizes, nonlinearity="relu", **more)}


@pytest.mark.parametrize("dtype", (fb.float32, fb.float64, fb.float16), ids=str)
@pytest.mark.parametrize("packed", (False, True))
@pytest.mark.parametrize("both", (False, True))
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers(name, both, packed, dtype):
    def found(device, dtype):
        fb.manual_seed(0)
        layer = RECURRENT[name](16, 32, 2, bidirectional=both).to(device, dtype)
        x = fb.randn(7, 3, 16).to(device, dtype).requires_grad_()
        out, last = layer(nn.utils.rnn.pack_padded_sequence(x, [7, 4, 2]) if packed else x)
        out = out.data if packed else out
        sum((t * t.detach().cos()).sum() for t in (out, *(last if isinstance(last, tuple) else (last,)))).backward()
        return [out, x.grad, *(p.grad for p in layer.parameters())]
    with fb.backends.cudnn.flags(enabled=True, fp32_precision="ieee"):
        mine, calls, _ = counted(lambda: found("cuda", dtype))
    assert calls >= 4  # two layers, there and back
    wide = fb.float64 if dtype == fb.float64 else fb.float32
    for a, b in zip(mine, found("cpu", wide), strict=True):
        if dtype == fb.float16:  # a unit of relu near 0 may be on or off
            assert (a.detach().cpu().float() - b).norm() <= 3e-2 * b.norm()
        else:
            assert close(a, b)
