"""Recurrent layers on the device: the CPU's numbers and gradients."""

import pytest

import flambeau as fb
from flambeau import nn

from . import numbers, use_own_kernels


@pytest.fixture(autouse=True)
def own_kernels(fresh, monkeypatch):
    use_own_kernels(monkeypatch)


LAYERS = {
    "LSTM": lambda: nn.LSTM(3, 4, 2, bidirectional=True), "GRU": lambda: nn.GRU(3, 4, 2, bidirectional=True),
    "RNN": lambda: nn.RNN(3, 4, nonlinearity="relu", bias=False), "projected": lambda: nn.LSTM(3, 4, proj_size=2),
}


@pytest.mark.parametrize("packed", (False, True))
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name, packed):
    fb.manual_seed(0)
    layer, x = LAYERS[name](), fb.randn(5, 3, 3)

    def found(device):
        layer.zero_grad()
        here = x.to(device).detach().requires_grad_()
        given = nn.utils.rnn.pack_padded_sequence(here, [5, 3, 2]) if packed else here
        out, state = layer.to(device)(given)
        out = out.data if packed else out
        states = state if isinstance(state, tuple) else (state,)
        sum((t * t.detach().cos()).sum() for t in (out, *states)).backward()
        return [t.detach().cpu() for t in (out, *states, here.grad, *(p.grad for p in layer.parameters()))]
    assert all(map(numbers.same, found("cuda"), found("cpu")))
