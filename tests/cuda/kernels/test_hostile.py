"""Kernels where it is harder: threads and blocks in another order, garbage in shared memory, closed pages around all.

What lacks a barrier, reads what nobody wrote, or steps out of a tensor is found here (emulate/shim.h, fences.py).
"""

import ctypes
import subprocess
import sys

import pytest

import flambeau
from flambeau.cuda.kernels.compiling import compile

from .. import emulate
from .fences import Fences
from .harness import Batch, PointwiseCall, same
from .rows import Lowered, copied
from .test_rows import FLOATS, NAMES, OWN, WHOLE, captured

ORDERS = ("reversed", "1", "20")


@pytest.fixture
def order(monkeypatch):
    """Sets the order; images read it when they are loaded."""
    def use(order):
        monkeypatch.setenv("FLAMBEAU_EMULATE_ORDER", order)
        emulate.module.cache_clear()
    yield use
    emulate.module.cache_clear()


def check(call, at_end):
    name, args, kwargs, after, result = call
    args = copied(args)
    expected = [result] if isinstance(result, flambeau.Tensor) else list(result)
    try:
        lowered = Lowered(name, args, kwargs, results=expected)
    except NotImplementedError as refusal:
        assert "has no CUDA kernel yet" in str(refusal)
        return True
    return all(same(a, b) for a, b in zip(lowered.run_fenced(at_end), expected, strict=True)) and all(
        same(a, b) for a, b in zip(args, after, strict=True) if isinstance(a, flambeau.Tensor))


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_keeps_to_its_memory_in_another_order(name, order):
    order("reversed")
    calls = captured(flambeau.float32).get(name) or captured(flambeau.int64).get(name) or OWN[name]()
    largest = max(calls, key=lambda call: sum(a.numel() for a in call[1] if isinstance(a, flambeau.Tensor)))
    assert check(largest, at_end=True), largest


def whole(values):
    """The tensors of whole numbers among arguments, in lists too."""
    for v in values:
        if isinstance(v, (list, tuple)):
            yield from whole(v)
        elif isinstance(v, flambeau.Tensor) and v.dtype in (flambeau.int64, flambeau.int32):
            yield v


@pytest.mark.parametrize("name", NAMES)
def test_no_index_is_followed_out_of_a_tensor(name):
    """Indices, labels and offsets far away and below 0: elements are left out, or 0, or NaN."""
    calls = [call for call in captured(flambeau.float32).get(name, []) if next(whole(call[1]), None) is not None]
    if not calls:
        return
    for far in (10**12, -10**12, 10**6):
        name, args, kwargs, _, result = calls[-1]
        args = copied(args)
        for x in whole(args):
            x.fill_(max(min(far, 10**6), -10**6) if x.dtype == flambeau.int32 else far)
        expected = [result] if isinstance(result, flambeau.Tensor) else list(result)
        for at_end in (True, False):
            Lowered(name, args, kwargs, results=expected).run_fenced(at_end)


@pytest.mark.exhaustive
@pytest.mark.parametrize("where", ORDERS)
@pytest.mark.parametrize("dtype", (*FLOATS, *WHOLE, flambeau.complex64), ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_every_call_of_the_samples(name, dtype, where, order):
    order(where)
    wrong = [call for call in captured(dtype).get(name, []) if not check(call, where != "1")]
    assert not wrong, wrong


@pytest.mark.parametrize("at_end", (True, False))
@pytest.mark.parametrize("aligned", (True, False))
def test_pointwise_kernels_keep_to_their_memory(aligned, at_end):
    """Any length, elements of 1 to 16 bytes; operands of other sizes beside them."""
    batch, runs = Batch(), []
    for dtype in (flambeau.bool, flambeau.float16, flambeau.float32, flambeau.float64, flambeau.complex128):
        for n in (*range(1, 19), 1023, 1025):
            x = flambeau.arange(n).remainder(2).to(dtype)
            calls = [("flat", PointwiseCall("add", (x, x), {})),
                     ("strided", PointwiseCall("mul", (x, flambeau.ones(n, dtype=flambeau.uint8)), {}))]
            runs += [(batch.add(call.signature(form, 32, aligned)), form, call) for form, call in calls]
    image = batch.image()
    for (function, vector), form, call in runs:
        out = flambeau.empty_like(call.result)
        with Fences(at_end) as fenced:
            call.launch(image, function, vector, form, out, fenced.tensor)
        assert same(out, call.result), (call.name, form, call.result.shape, call.result.dtype)


TEXT = """
extern "C" __global__ void turn(const float* x, float* y, int n) {
  __shared__ float part[64];
  part[threadIdx.x] = x[threadIdx.x];
  BARRIER
  y[threadIdx.x] = part[n - 1 - threadIdx.x];
}
extern "C" __global__ void keep(float* y) {
  __shared__ float part[64];
  if (threadIdx.x != 5) part[threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = part[threadIdx.x];
}
extern "C" __global__ void last(float* y) {
  *y = blockIdx.x;
}
"""


def launch(function, x, barrier="__syncthreads();", blocks=1):
    y = flambeau.zeros(64)
    given = [ctypes.c_void_p(x.data_ptr())] if x is not None else []
    more = [ctypes.c_int(64)] if function == "turn" else []
    emulate.launch(compile(TEXT.replace("BARRIER", barrier), "emulate", "a test"), function, (blocks, 1, 1), (64, 1, 1),
                   [*given, ctypes.c_void_p(y.data_ptr()), *more])
    return y


def test_orders_show_what_is_missing(order):
    """A kernel without its barrier, shared memory that is not written, and blocks that write to one place."""
    x = flambeau.arange(64.0)
    wanted = x.flip(0)
    assert launch("last", None, blocks=5)[0] == 4
    for where in ORDERS:
        order(where)
        assert launch("turn", x).equal(wanted) and not launch("turn", x, "").equal(wanted)
        assert launch("keep", None)[4:7].isnan().tolist() == [False, True, False]
    order("reversed")
    assert launch("last", None, blocks=5)[0] == 0


@pytest.mark.parametrize("at_end", (True, False))
def test_closed_pages_are_closed(at_end):
    """What is read and written within comes back; a step outside ends the process."""
    x = flambeau.arange(20.0)
    with Fences(at_end) as fenced:
        place = fenced.tensor(x[3:])
        ctypes.c_float.from_address(place).value = -7.0
    assert x[3] == -7 and x[2] == 2
    outside = 80 if at_end else -1
    program = (f"import ctypes, flambeau\nfrom tests.cuda.kernels.fences import Fences\nx = flambeau.arange(20.)\n"
               f"with Fences({at_end}) as f: ctypes.c_char.from_address(f.tensor(x) + {outside}).value")
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode < 0


def test_threads_at_different_places_do_not_meet():
    text = """extern "C" __global__ void apart(float* y) {
  if (threadIdx.x < 16) {
    __syncwarp();
  } else {
    __syncwarp();
  }
  y[threadIdx.x] = 1;
}"""
    program = ("import ctypes\nfrom tests.cuda import emulate\nroom = (ctypes.c_float * 32)()\n"
               "y = ctypes.c_void_p(ctypes.addressof(room))\n"
               f"emulate.launch(emulate.build({text!r}), 'apart', (1, 1, 1), (32, 1, 1), [y])")
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "wait for each other stand at lines" in run.stderr, run.stderr
    assert run.returncode < 0
