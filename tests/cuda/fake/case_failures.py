"""Whatever call of the driver fails: the operation raises, and everything stays usable; forks are told so."""

import os
import subprocess
import sys

import pytest

import flambeau as fb
from flambeau import _C, cuda


def sum_of_products():
    x = fb.arange(64.0).cuda()
    y = (x * 2.0 + x).view(8, 8).t().contiguous()
    return y.sum().item()


def round_trip():
    x = fb.arange(100.0).pin_memory()
    y = x.to("cuda:1", non_blocking=True)
    out = fb.empty(100, pin_memory=True).copy_(y, non_blocking=True)
    cuda.synchronize(1)
    return out.tolist()


def streams():
    a, b = cuda.Stream(), cuda.Stream()
    with cuda.stream(a):
        x = fb.ones(10, device="cuda")
    b.wait_stream(a)
    with cuda.stream(b):
        y = x + x
    x.record_stream(b)
    del x
    cuda.current_stream().wait_stream(b)
    return y.tolist()


def between():
    x = fb.arange(12.0).view(3, 4).cuda()
    return x.t().to("cuda:1").cpu().tolist()


def recorded():
    x = fb.ones(10, device="cuda")
    y = x + x
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        y = x + x
    g.replay()
    return y.tolist()


def memory():
    x = fb.empty(30 << 20, dtype=fb.uint8, device="cuda")
    del x
    cuda.empty_cache()
    return cuda.mem_get_info()[1]


PROGRAMS = [sum_of_products, round_trip, streams, between, recorded, memory]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("code", [999, 2], ids=["unknown", "out of memory"])
def test_every_call_may_fail(program, code, fake):
    expected = program()
    allocated = cuda.memory_allocated()
    n = failed = 0
    while True:
        n += 1
        _C._cuda.forget_plans()
        cuda.empty_cache()
        fake.fail(n, code=code)
        try:
            assert program() == expected
        except RuntimeError as error:
            failed += 1
            assert "made to fail" in str(error) or "out of memory" in str(error), error
        left = fake.left()
        fake.fail(0)
        cuda.synchronize()
        assert program() == expected, n
        if left:
            break
        assert n < 3000
    assert failed > n // 4
    cuda.synchronize()
    fb.ones(3, device="cuda")
    assert cuda.memory_allocated() <= allocated + 512


def test_a_kernel_that_faults_names_the_operators(fake):
    x = fb.ones(10, device="cuda")
    x + x
    x * x
    fake.fail(1, "cuStreamQuery", code=700)
    with pytest.raises(RuntimeError, match=r"illegal memory access.*newest first: mul, add"):
        x.cpu()
    fake.fail(0)
    fake.fail(1, "cuLaunchKernel", code=701)
    with pytest.raises(RuntimeError, match=r"^add: CUDA error"):
        x + x


PROGRAM = """
import os, sys
import flambeau as fb
{before}
child = os.fork()
if child == 0:
    code = 1
    try:
        assert fb.cuda._is_in_bad_fork() == {bad}
        if {bad}:
            try:
                fb.ones(3, device="cuda")
            except RuntimeError as error:
                assert "fork" in str(error), error
                assert (fb.ones(3) + 1).tolist() == [2, 2, 2]
                if "x" in globals():
                    del x
                code = 0
        else:
            assert fb.ones(3, device="cuda").tolist() == [1, 1, 1]
            code = 0
    finally:
        os._exit(code)
_, status = os.waitpid(child, 0)
assert status == 0, status
assert fb.ones(3, device="cuda").tolist() == [1, 1, 1]
"""


@pytest.mark.parametrize("before, bad", [("x = fb.ones(3).cuda()", True), ("", False)], ids=["used", "unused"])
def test_forks(before, bad):
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM.format(before=before, bad=bad)],
                          env=os.environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_nothing_is_opened_by_importing():
    text = ("import flambeau as fb, flambeau.cuda; from flambeau import _C; assert not _C._cuda.opened(); "
            "fb.ones(3) + 1; fb.manual_seed(1); repr(fb.device('cuda')); assert not fb.cuda.is_initialized(); "
            "assert not _C._cuda.opened(); assert fb.cuda.is_available() and not fb.cuda.is_initialized()")
    done = subprocess.run([sys.executable, "-c", text], env=os.environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["", "/no/such/driver.so", "libm.so.6"])
def test_without_a_driver(name):
    text = ("import flambeau as fb; c = fb.cuda; assert not c.is_available() and c.device_count() == 0\n"
            "try: fb.ones(2).cuda()\nexcept RuntimeError as e: assert 'no CUDA' in str(e)\nelse: assert False\n"
            "try: c.synchronize()\nexcept NotImplementedError as e: assert 'without CUDA' in str(e)\n"
            "else: assert False\nassert c.memory_allocated() == 0 and c.memory_stats() == {}")
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "FLAMBEAU_CUDA_DRIVER": name})
    assert done.returncode == 0, done.stderr
