"""Kernels that a program writes and launches itself."""

import ctypes

import pytest

import flambeau as fb
from flambeau import cuda
from flambeau.cuda.kernels import compiling, nvrtc

pytestmark = pytest.mark.usefixtures("own_kernels")
SCALED = """extern "C" __global__ void scaled(const float* x, float* y, int n, double factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = float(x[i] * factor);
}"""


def test_a_kernel_is_launched_on_tensors_and_numbers(fake):
    scaled = cuda._compile_kernel(SCALED, "scaled")
    x = fb.arange(100.0).cuda()
    y, before = fb.zeros_like(x), fake.calls("cuLaunchKernel")
    scaled((4, 1, 1), (32, 1, 1), (x, y, 90, 0.5))
    scaled(grid=1, block=(10,), args=[x[90:], y[90:], ctypes.c_int(10), ctypes.c_double(2)])
    assert fake.calls("cuLaunchKernel") == before + 2
    assert y.tolist() == [*(k / 2 for k in range(90)), *(2 * k for k in range(90, 100))]


def test_it_runs_on_the_stream_that_is_given_and_on_each_device(fake):
    scaled, side = cuda._compile_kernel(SCALED, "scaled"), cuda.Stream()
    x = fb.ones(4, device="cuda")
    y = fb.zeros_like(x)
    cuda.synchronize()
    fake.delay(True)
    scaled(args=[x, y, 4, 3.0], block=(4, 1, 1), stream=side)
    with cuda.stream(side):
        scaled(args=[y, x, 4, 3.0], block=(4, 1, 1))
    assert fake.waiting(side) == 2 and cuda.current_stream() == cuda.default_stream()
    side.synchronize()
    assert x.tolist() == [9] * 4
    with cuda.device(1):
        z = fb.ones(4, device="cuda")
        scaled(args=[z, z, 4, 5.0], block=(4, 1, 1))
        with pytest.raises(ValueError, match="argument 0 is on cuda:0, and the kernel is launched on cuda:1"):
            scaled(args=[x, z, 4, 1.0])
    assert z.tolist() == [5] * 4


def test_pinned_memory_stays_until_the_kernel_is_done(fake):
    scaled, side = cuda._compile_kernel(SCALED, "scaled"), cuda.Stream()
    y = fb.zeros(200, device="cuda")
    cuda.synchronize()
    fake.delay(True)
    source = fb.ones(200).pin_memory()
    scaled(args=[source, y, 200, 2.0], grid=(2, 1, 1), block=(128, 1, 1), stream=side)
    del source
    others = [fb.full((200,), 5.0).pin_memory() for _ in range(3)]
    side.synchronize()
    assert y.tolist() == [2] * 200 and len(others) == 3


def test_what_is_refused():
    scaled, x = cuda._compile_kernel(SCALED, "scaled"), fb.ones(2, device="cuda")
    for call, error, words in (
            (lambda: cuda._compile_kernel(SCALED, "other"), ValueError, "has no kernel 'other'"),
            (lambda: cuda._compile_kernel(SCALED.replace("float(", "lost("), "scaled"), RuntimeError, "lost"),
            (lambda: scaled(args=[fb.ones(2), x, 2, 1.0]), ValueError, "pinned memory"),
            (lambda: scaled(args=[x, x, 2**40, 1.0]), OverflowError, r"ctypes.c_int64"),
            (lambda: scaled(args=[x, x, "2", 1.0]), TypeError, "argument 2 is '2'"),
            (lambda: scaled(grid=(1, 1, 1, 1)), ValueError, "as grid"),
            (lambda: scaled(block=(0, 1, 1)), ValueError, "as block")):
        with pytest.raises(error, match=words):
            call()


def test_shared_memory_beyond_what_all_kernels_have_is_asked_for(fake):
    scaled, x = cuda._compile_kernel(SCALED, "scaled"), fb.ones(2, device="cuda")
    before = fake.calls("cuFuncSetAttribute")
    scaled(args=[x, x, 2, 1.0], shared_mem=1000)
    assert fake.calls("cuFuncSetAttribute") == before
    scaled.set_shared_memory_config(100_000)
    scaled(args=[x, x, 2, 1.0], shared_mem=100_000)
    assert fake.calls("cuFuncSetAttribute") == before + 1


def test_a_stream_sleeps(monkeypatch, fake):
    clock = "inline long long clock64() { static long long now; return ++now; }\n"
    own = compiling.builders["emulate"]
    monkeypatch.setitem(compiling.builders, "emulate", lambda source, name: own(clock + source, name))
    side = cuda.Stream()
    fake.delay(True)
    with cuda.stream(side):
        cuda._sleep(1000)
    assert not side.query()
    side.synchronize()


@pytest.mark.skipif(not nvrtc.found(), reason="NVRTC is not installed")
def test_options_and_folders_with_headers(monkeypatch, tmp_path):
    """As NVRTC takes them: what is compiled is for a GPU that is not here."""
    monkeypatch.delitem(compiling.builders, "emulate")
    (tmp_path / "own.h").write_text("#define FACTOR 2\n")
    text = '#include "own.h"\nextern "C" __global__ void kernel(float* x) { x[0] *= FACTOR * MORE; }'
    monkeypatch.setattr(cuda._kernel, "_Kernel", lambda name, image: image)
    image = cuda._compile_kernel(text, "kernel", "9.0", [tmp_path], ["-DMORE=3", "--std=c++20"])(0)
    assert image.startswith(b"\x7fELF")
    with pytest.raises(RuntimeError, match="FACTOR"):
        cuda._compile_kernel(text.partition("\n")[2], "kernel", "90", [], ["-DMORE=3"])
