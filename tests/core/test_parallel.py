"""Loops in threads: one mechanism, which can be interrupted and gives the same numbers however it is cut."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau as fb

NATIVE = Path(__file__).resolve().parents[2] / "native"


def test_threads_begin_in_one_file():
    if not NATIVE.is_dir():
        pytest.skip("the native sources are not here")
    found = {p.relative_to(NATIVE).as_posix() for p in NATIVE.rglob("*") if p.suffix in (".h", ".cpp")
             and re.search(r"#\s*pragma\s+omp|_Pragma|std::thread\b", p.read_text())}
    assert found == {"core/parallel.cpp"}


#: calls that would take minutes to ages, if nothing interrupted them
LONG = {
    "a polynomial": "fb.special.laguerre_polynomial_l(fb.tensor([0.5], dtype=fb.float64), 10**12)",
    "another polynomial": "fb.special.legendre_polynomial_p(fb.full((9,), 0.3), 10**12)",
    "a sum of an expanded tensor": "fb.ones(1).expand(2**50).sum()",
    "a maximum of rows": "fb.ones(3, 1).expand(3, 2**48).amax(1)",
    "a sum of columns": "fb.ones(1, 64).expand(2**44, 64).sum(0)",
    "decompositions": "fb.linalg.svd(fb.rand(1, 60, 60, dtype=fb.float64).expand(2**14, 60, 60))",
    "a product of float32": "[fb.ones(6000, 6000) @ fb.ones(6000, 6000) for _ in range(100)]",
    "a product of integers": "fb.ones(9000, 9000, dtype=fb.int64) @ fb.ones(9000, 9000, dtype=fb.int64)",
    "distances": "fb.cdist(fb.rand(9000, 9000), fb.rand(9000, 9000), p=3.0)",
    "a convolution": "fb.nn.functional.conv2d(fb.ones(64, 256, 64, 64).double(), fb.ones(512, 256, 9, 9).double())",
    "a recurrence": "fb.nn.LSTM(600, 900)(fb.ones(9000, 32, 600))",
    "pooling": "fb.nn.functional.max_pool2d(fb.ones(1, 1, 4000, 4000), 1999, stride=1)",
}

PROGRAM = """
import signal, flambeau as fb
class Stop(Exception): pass
def stop(number, frame): raise Stop
signal.signal(signal.SIGALRM, stop)
fb.set_num_threads({threads})
signal.setitimer(signal.ITIMER_REAL, 0.3, 5)
try:
    {call}
except Stop:
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert fb.ones(300, 300).sum() == 90000  # all is well afterwards
    print("stopped")
"""


@pytest.mark.parametrize("threads", (1, 2))
@pytest.mark.parametrize("name", LONG)
def test_a_long_call_is_interrupted(name, threads):
    program = PROGRAM.format(call=LONG[name], threads=threads)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert run.stdout == "stopped\n", run.stderr


CASES = {
    "products": lambda: fb.rand(900, 900) @ fb.rand(900, 900),
    "float64 products": lambda: fb.rand(500, 500, dtype=fb.float64) @ fb.rand(500, 500, dtype=fb.float64),
    "convolution": lambda: fb.nn.functional.conv2d(fb.rand(8, 32, 60, 60), fb.rand(32, 32, 5, 5)),
    "decompositions": lambda: fb.linalg.svdvals(fb.rand(200, 40, 40, dtype=fb.float64)),
    "LSTM": lambda: fb.nn.LSTM(60, 90)(fb.rand(200, 32, 60))[0],
    "sums": lambda: fb.rand(4, 3_000_000).sum(1),
    "sort": lambda: fb.rand(20, 200_000).sort(1).values,
    "random numbers": lambda: fb.randn(3_000_000),
    "exponentials": lambda: fb.rand(5_000_000).exp_(),
}


@pytest.mark.parametrize("name", CASES)
def test_a_handler_in_the_middle_changes_nothing(name):
    """A handler that itself computes, on the same thread, with the same scratch memory."""
    call, heard = CASES[name], []
    a = fb.rand(70, 70, generator=fb.Generator().manual_seed(1))
    fb.manual_seed(0)
    expected = [call() for _ in range(4)]

    def handler(number, frame):
        heard.append((a @ a).sum())
    before = signal.signal(signal.SIGALRM, handler)
    try:
        fb.manual_seed(0)
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        found = [call() for _ in range(4)]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert all(fb.equal(x, y) for x, y in zip(expected, found, strict=True))
    assert all(h == heard[0] for h in heard)


def test_an_error_in_a_thread_reaches_the_caller():
    program = """
import flambeau as fb
from flambeau import _C
fb.set_num_threads(2)
x, w = fb.rand(8, 32, 40, 40), fb.rand(32, 32, 3, 3)
y = fb.nn.functional.conv2d(x, w)
caught = 0
for n in range(1, 200):
    _C.fail_allocation(n)
    try:
        fb.nn.functional.conv2d(x, w)
        break
    except (MemoryError, fb.OutOfMemoryError):
        caught += 1
_C.fail_allocation(0)
assert caught and fb.equal(fb.nn.functional.conv2d(x, w), y)
print("done")
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert run.stdout == "done\n", run.stderr


@pytest.mark.parametrize("f", (fb.special.chebyshev_polynomial_t, fb.special.chebyshev_polynomial_u,
                               fb.special.chebyshev_polynomial_v, fb.special.chebyshev_polynomial_w))
@pytest.mark.parametrize("x", (1.00000001, -1.00000001))
def test_chebyshev_polynomials_of_high_degree_continue_those_of_low_degree(f, x):
    """p_(n+1) = 2 x p_n - p_(n-1), across the degree at which the recurrence gives way to hyperbolic functions."""
    x = fb.tensor(x, dtype=fb.float64)
    n = 2**20
    below, at, above = f(x, n - 1), f(x, n), f(x, n + 1)
    fb.testing.assert_close(above, 2 * x * at - below, rtol=1e-6, atol=0)
