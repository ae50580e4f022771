"""Recurrent layers by a cuDNN that is a fake, and step by step where it does not serve."""

import pytest

import flambeau as fb
from flambeau import _C, nn
from flambeau._libraries import NO_RECURRENT
from flambeau.backends import _switches

from . import FakeLibrary, numbers

DNN = FakeLibrary("cudnn")
SWITCHES = fb.backends.cudnn

pytestmark = pytest.mark.usefixtures("own_kernels")
LAYERS = {
    "LSTM": lambda **more: nn.LSTM(3, 4, 2, bidirectional=True, **more),
    "LSTM of three layers": lambda **more: nn.LSTM(3, 4, 3, **more),
    "LSTM in one direction": lambda **more: nn.LSTM(3, 4, bias=False, **more),
    "GRU": lambda **more: nn.GRU(3, 4, 2, bidirectional=True, **more),
    "GRU without bias": lambda **more: nn.GRU(3, 4, bias=False, **more),
    "RNN": lambda **more: nn.RNN(3, 4, bidirectional=True, **more),
    "RNN of relu": lambda **more: nn.RNN(3, 4, 2, nonlinearity="relu", **more),
}


def calls(f):
    """How often the library went there, and back."""
    before = DNN.calls("rnn_forward"), DNN.calls("rnn_weights_backward")
    f()
    return DNN.calls("rnn_forward") - before[0], DNN.calls("rnn_weights_backward") - before[1]


def compared(make, dtype=fb.float32, packed=False, given=False, near=None):
    """Results and gradients here and there."""
    def found(device):
        fb.manual_seed(0)
        layer, x = make().to(device, dtype), fb.randn(5, 3, 3).to(device, dtype).requires_grad_()
        data = nn.utils.rnn.pack_padded_sequence(x, [5, 3, 2]) if packed else x
        rows = len(layer.all_weights)
        states = [fb.linspace(-1, 1, rows * 12).view(rows, 3, 4).to(device, dtype).requires_grad_() for _ in range(2)]
        hx = (tuple(states) if isinstance(layer, nn.LSTM) else states[0]) if given else None
        out, last = layer(data, hx)
        out = out.data if packed else out
        last = last if isinstance(last, tuple) else (last,)
        sum((t * t.detach().cos()).sum() for t in (out, *last)).backward()
        return [t.detach() for t in (out, *last, x.grad, *(p.grad for p in layer.parameters()))] + \
            [s.grad for s in states if s.grad is not None]
    mine, expected = found("cuda"), found("cpu")
    assert len(mine) == len(expected)
    for a, b in zip(mine, expected, strict=True):
        assert a.is_cuda and numbers.same(a, b, near)


@pytest.mark.parametrize("packed", (False, True))
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name, packed):
    assert calls(lambda: compared(LAYERS[name], packed=packed)) == (1, 1)
    compared(LAYERS[name], packed=packed, given=True)


@pytest.mark.parametrize("dtype", (fb.float64, fb.float16), ids=str)
def test_dtypes(dtype):
    for name in ("LSTM", "GRU"):
        near = 0.03 if dtype == fb.float16 else None
        assert calls(lambda name=name: compared(LAYERS[name], dtype, near=near)) == (1, 1)  # noqa: B023


def test_what_goes_step_by_step():
    steps = (0, 0)
    assert calls(lambda: compared(LAYERS["GRU"], fb.bfloat16, near=0.2)) == steps
    assert calls(lambda: compared(lambda: nn.LSTM(3, 4, bias=False).double())) != steps
    with SWITCHES.flags(enabled=False):
        assert calls(lambda: compared(LAYERS["LSTM"])) == steps
    with SWITCHES.flags(enabled=True, deterministic=True):
        assert calls(lambda: compared(LAYERS["LSTM"])) == steps
    fb.use_deterministic_algorithms(True)
    try:
        assert calls(lambda: compared(LAYERS["LSTM"])) == steps
    finally:
        fb.use_deterministic_algorithms(False)
    x, projected = fb.randn(5, 3, 3).cuda(), nn.LSTM(3, 4, proj_size=2).cuda()
    assert calls(lambda: projected(x)) == steps


@pytest.mark.parametrize("function", ("rnn_set", "rnn_forward"))
def test_what_the_library_refuses_goes_step_by_step(function):
    layer, x = nn.GRU(3, 4), fb.randn(5, 2, 3)
    expected = layer(x)[0]
    layer.cuda()
    _C._cuda.forget_plans()
    DNN.fail(1, function, 3000)
    assert numbers.same(layer(x.cuda())[0], expected) and DNN.left() == 0


def test_the_bits_of_switches_are_those_of_the_backends():
    names = ("cudnn", "deterministic", "only_deterministic")
    assert sum(_switches._SWITCHES[name][0] for name in names) == NO_RECURRENT


def test_tf32_is_for_those_who_allow_it():
    layer, x = nn.LSTM(3, 4).cuda(), fb.randn(5, 2, 3).cuda()
    for precision, math in (("tf32", 0), ("ieee", 3)):
        with SWITCHES.flags(enabled=True, fp32_precision=precision):
            layer(x)
            assert DNN.library.fake_last_math() == math
    layer.half()(x.half())
    assert DNN.library.fake_last_math() == 1


def test_dropout_between_layers():
    layer, x = nn.LSTM(3, 4, 3, dropout=0.5).cuda(), fb.randn(5, 2, 3).cuda()
    fb.manual_seed(0)
    found = []
    assert calls(lambda: found.extend(layer(x))) == (3, 0)
    first = found[0]
    assert [t.shape for t in found[1]] == [(3, 2, 4)] * 2
    fb.manual_seed(0)
    assert fb.equal(layer(x)[0].cpu(), first.cpu())
    assert not fb.equal(layer(x)[0].cpu(), first.cpu())
    assert fb.equal(layer.eval()(x)[0].cpu(), layer(x)[0].cpu())
    assert calls(lambda: layer(x)) == (1, 0)


def test_gradients_of_gradients_and_of_some_results():
    def found(device):
        fb.manual_seed(0)
        layer, x = nn.GRU(3, 4, 2).double().to(device), fb.randn(4, 2, 3).double().to(device).requires_grad_()
        layer.weight_hh_l0.requires_grad_(False)
        out = layer(x)[0]
        g, = fb.autograd.grad((out * out.detach()).sum(), x, create_graph=True)
        (g * g).sum().backward()
        learned = [p.grad for p in layer.parameters() if p.requires_grad]
        return [x.grad, *learned, fb.autograd.grad(layer(x)[1].sum(), x)[0]]
    assert all(map(numbers.same, found("cuda"), found("cpu")))


def test_the_way_back_can_be_gone_twice():
    layer, x = nn.LSTM(3, 4).cuda(), fb.randn(4, 2, 3).cuda().requires_grad_()
    total = layer(x)[0].sum()
    first = fb.autograd.grad(total, [x, *layer.parameters()], retain_graph=True)
    assert calls(lambda: all(map(numbers.same, fb.autograd.grad(total, [x, *layer.parameters()]), first))) == (0, 1)


def test_nothing_is_kept_where_nobody_wants_gradients():
    layer, x = nn.GRU(3, 4).cuda(), fb.randn(4, 2, 3).cuda()
    expected = layer(x)[0].detach()
    with fb.no_grad():
        found = layer(x)[0]
        h0 = x.new_zeros((1, 2, 4))
        operands = [x.view(8, 3), h0, None, *layer.parameters()]
        out, _, _, kept = fb.ops.aten._recurrent_stack.default(operands, True, False, [2] * 4, "gru", 0)
    assert kept.numel() == 0 and fb.equal(found.cpu(), expected.cpu())
    assert fb.equal(out.view(4, 2, 4).cpu(), found.cpu())


def test_every_status_in_turn_leaves_everything_usable():
    layer, x = nn.LSTM(3, 4), fb.randn(4, 2, 3)
    expected = layer(x)[0].detach()
    layer, there = layer.cuda(), x.cuda()
    _C._cuda.forget_plans()
    alive = DNN.alive()
    for n in range(1, 100):
        DNN.fail(n, status=5000)
        try:
            found = layer(there)[0]
        except RuntimeError as error:
            assert "recurrent_stack: cuDNN: CUDNN_STATUS_EXECUTION_FAILED (5000) in cudnn" in str(error)
        left = DNN.left()
        DNN.fail(0)
        assert numbers.same(layer(there)[0], expected)
        _C._cuda.forget_plans()
        assert DNN.alive() == alive
        if left:
            break
    assert 20 < n < 99 and numbers.same(found, expected)


def test_recorded_in_a_graph_and_compiled():
    layer, x = nn.GRU(3, 4, bidirectional=True), fb.randn(4, 2, 3)
    expected = [layer(x * k)[0].detach() for k in (1, 2)]
    layer, there = layer.cuda(), x.cuda()
    with fb.no_grad():
        assert numbers.same(fb.compile(layer)(there)[0], expected[0])
        layer(there)
        graph = fb.cuda.CUDAGraph()
        with fb.cuda.graph(graph):
            out = layer(there)[0]
        there.mul_(2)
        graph.replay()
    assert numbers.same(out, expected[1])
