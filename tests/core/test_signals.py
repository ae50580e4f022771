"""A signal may arrive at any moment of a computation: the numbers stay right and the process alive.

Each program runs in a process of its own, without an alternate signal stack (pytest's fault handler sets one), so that
code which keeps live data below its stack pointer is overwritten by the handler's frame.
"""

import subprocess
import sys

import pytest

PROGRAM = """
import signal, sys, time
import flambeau as torch
from flambeau.nn import functional as F

torch.set_num_threads({threads})
arrived = 0
def count(*_):
    global arrived
    arrived += 1

def same(first, second):
    return all(torch.equal(x, y) for x, y in zip(first, second))

def gradients(call, *inputs):
    inputs = [x.clone().requires_grad_() for x in inputs]
    out = call(*inputs)
    return (out, *torch.autograd.grad(out.sum(), inputs))

torch.manual_seed(0)
a, b = torch.randn(256, 256), torch.randn(256, 256)
image, weight = torch.randn(4, 16, 28, 28), torch.randn(32, 16, 3, 3)
heads = torch.randn(2, 4, 96, 32)
lstm = torch.nn.LSTM(64, 64, 2)
spd = a @ a.T + 256 * torch.eye(256)
calls = {{
    "product": lambda: (a @ b, a.T @ b, a @ b.T),
    "product of few columns": lambda: (torch.cat([a, b]) @ b[:, :24],),
    "product of doubles": lambda: (a.double() @ b.double(),),
    "product of halves": lambda: (a.bfloat16() @ b.bfloat16(), a.half() @ b.half()),
    "product of integers and complex numbers": lambda: ((9 * a).long() @ (9 * b).long(), a.cfloat() @ b.cfloat()),
    "batch of products": lambda: (torch.bmm(a.view(4, 64, 256), b.view(4, 256, 64)),),
    "linear": lambda: gradients(F.linear, a, b, b[0]),
    "convolution": lambda: gradients(lambda x, w: F.conv2d(x, w, padding=1), image, weight),
    "half convolution": lambda: (F.conv2d(image.bfloat16(), weight.bfloat16()),),
    "transposed convolution": lambda: (F.conv_transpose2d(image, weight.transpose(0, 1), stride=2),),
    "pooling and norm": lambda: gradients(lambda x: F.max_pool2d(F.batch_norm(x, None, None, training=True), 2), image),
    "attention": lambda: gradients(F.scaled_dot_product_attention, heads, heads + 1, heads - 1),
    "lstm": lambda: (lstm(a.view(16, 64, 64))[0],),
    "sort": lambda: (a.view(-1).sort().values, a.topk(9).values, a.view(-1).argsort()),
    "decompositions": lambda: (torch.linalg.svdvals(a), torch.linalg.cholesky(spd), torch.linalg.qr(a)[1],
                               torch.linalg.solve(spd, b), torch.linalg.eigvalsh(spd)),
    "fourier": lambda: (torch.fft.fft(a).real, torch.fft.rfft2(a).imag),
    "pointwise and sums": lambda: (a.exp().tanh(), a.softmax(1), a.sum(0), a.logsumexp(1), a.cumsum(0)),
}}
expected = {{name: [x.clone() for x in call()] for name, call in calls.items()}}
signal.signal(signal.SIGALRM, count)
for name, call in calls.items():
    print(name, flush=True)
    signal.setitimer(signal.ITIMER_REAL, 0.0013, 0.0013)
    end = time.monotonic() + {seconds}
    while time.monotonic() < end:
        found = call()
        assert same(expected[name], found), name
    signal.setitimer(signal.ITIMER_REAL, 0)
assert arrived > 20 * len(calls) * {seconds}, arrived
print("survived")
"""


def survive(threads, seconds):
    program = PROGRAM.format(threads=threads, seconds=seconds)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.stdout.endswith("survived\n"), (done.returncode, done.stdout[-200:], done.stderr[-2000:])


@pytest.mark.parametrize("threads", [1, 2])
def test_signals_during_every_library_call(threads):
    survive(threads, 0.25)


@pytest.mark.exhaustive
@pytest.mark.parametrize("threads", [1, 2])
def test_signals_during_every_library_call_for_long(threads):
    survive(threads, 20)
