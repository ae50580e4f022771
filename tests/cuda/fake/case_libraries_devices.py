"""Libraries on two devices in turn: each call takes the handle, the stream and the memory of its own."""

import pytest

import flambeau as fb
from flambeau import linalg
from flambeau.nn import functional as F

from . import numbers

pytestmark = pytest.mark.usefixtures("own_kernels")

A, B = fb.linspace(-1, 1, 16).view(4, 4), fb.linspace(1, 3, 16).view(4, 4).cos() + 4 * fb.eye(4)
CALLS = {
    "mm": lambda a, b: a @ b,
    "convolution": lambda a, b: F.conv1d(a.view(1, 4, 4), b.view(4, 4, 1)),
    "batch_norm": lambda a, b: F.batch_norm(a, None, None, b[0], b[1], training=True),
    "fft": lambda a, b: fb.fft.fft(a) + b,
    "solve": lambda a, b: linalg.solve(b, a),
    "triangular": lambda a, b: linalg.solve_triangular(b.triu(), a, upper=True),
    "qr": lambda a, b: linalg.qr(b)[1].abs() + a,
    "eigvalsh": lambda a, b: linalg.eigvalsh(b + b.mT) + a,
}


@pytest.mark.parametrize("name", CALLS)
def test_devices_in_turn(name):
    call, expected = CALLS[name], CALLS[name](A, B)
    on = [(A.to(f"cuda:{k}"), B.to(f"cuda:{k}")) for k in range(2)]
    for k in (1, 0, 1, 0):
        for current in range(2):
            with fb.cuda.device(current):
                found = call(*on[k])
            assert found.device == fb.device("cuda", k)
            assert numbers.same(found, expected, 1e-2)


@pytest.mark.parametrize("name", CALLS)
def test_streams_of_the_second_device(name, fake):
    call, expected = CALLS[name], CALLS[name](A, B)
    a, b = A.to("cuda:1"), B.to("cuda:1")
    fake.delay(True)
    for _ in range(2):
        stream = fb.cuda.Stream(1)
        stream.wait_stream(fb.cuda.current_stream(1))
        with fb.cuda.stream(stream):
            found = call(a, b)
        stream.synchronize()
        assert numbers.same(found, expected, 1e-2)


def test_gradients_of_layers_on_the_second_device():
    layer = fb.nn.LSTM(4, 3).to("cuda:1")
    out, _ = layer(A.view(4, 1, 4).to("cuda:1"))
    out.sum().backward()
    there = [p.grad for p in layer.parameters()]
    layer.zero_grad()
    layer.cpu()
    out, _ = layer(A.view(4, 1, 4))
    out.sum().backward()
    assert all(g.device == fb.device("cuda:1") for g in there)
    assert all(numbers.same(g, p.grad, 1e-2) for g, p in zip(there, layer.parameters(), strict=True))
