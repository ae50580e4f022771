"""Functions in CUDA C++ that users write, as operators; names of flambeau.cuda that need no device to answer."""

import pytest

import flambeau as fb
from flambeau import cuda
from flambeau.cuda.jiterator import _create_jit_fn, _create_multi_output_jit_fn

pytestmark = pytest.mark.usefixtures("own_kernels")
MIXED = "template <typename T> T mixed(T x, T y, T alpha) { return -x * y + x - y + alpha; }"


@pytest.mark.parametrize("dtype", (fb.float32, fb.float64, fb.float16, fb.bfloat16, fb.int64, fb.complex64), ids=str)
def test_a_function_of_tensors_and_a_number(fake, dtype):
    """Broadcast, in any layout; repeated calls launch one kernel each."""
    f = _create_jit_fn(MIXED, alpha=2)
    x, y = (fb.randn(5, 4) * 3).to(dtype), (fb.randn(5) * 3).to(dtype)
    wide = fb.complex128 if dtype.is_complex else fb.float64
    for given in ({}, {"alpha": 3}):
        before = fake.calls("cuLaunchKernel")
        found = f(x.cuda().t(), y.cuda(), **given)
        assert fake.calls("cuLaunchKernel") == before + 1
        a, b = x.t().to(wide), y.to(wide)
        near = {fb.float16: 5e-2, fb.bfloat16: 0.5}.get(dtype, 1e-4)
        wanted = -a * b + a - b + given.get("alpha", 2)
        assert found.dtype is dtype and fb.allclose(found.cpu().to(wide), wanted, atol=near)


def test_dtypes_are_promoted_and_nothing_gives_nothing():
    f = _create_jit_fn(MIXED, alpha=0)
    found = f(fb.arange(3).cuda(), fb.ones(2, 1, dtype=fb.float16).cuda())
    assert found.dtype is fb.float16 and found.cpu().tolist() == [[-1, -1, -1]] * 2
    assert f(fb.ones(0, 3).cuda(), fb.ones(3).cuda()).shape == (0, 3)


def test_several_results():
    f = _create_multi_output_jit_fn(
        "template <typename T> void both(T a, T b, T k, T& sum, T& apart) { sum = a + k * b; apart = a - b; }", 2, k=1)
    total, apart = f(fb.ones(3).cuda(), fb.arange(3).cuda(), k=2.5)
    assert total.cpu().tolist() == [1, 3.5, 6] and apart.cpu().tolist() == [1, 0, -1]


def test_what_is_refused():
    f, x = _create_jit_fn(MIXED, alpha=0), fb.ones(2).cuda()
    for call, error, words in (
            (lambda: f(fb.ones(2), x), RuntimeError, "must be a tensor on a CUDA device"),
            (lambda: f(x), TypeError, "expected 2 tensors"),
            (lambda: f(x, x, beta=1), TypeError, "no number is called beta"),
            (lambda: f(x, fb.ones(2, device="cuda:1")), RuntimeError, "several devices, cuda:0, cuda:1"),
            (lambda: _create_jit_fn("int f(int x)"), ValueError, "expected a text of the form"),
            (lambda: _create_jit_fn(MIXED, beta=1), ValueError, "must end with the numbers"),
            (lambda: _create_jit_fn("template <typename T> T f(T x) { return lost; }")(x), RuntimeError, "lost")):
        with pytest.raises(error, match=words):
            call()


def test_storages_of_the_device():
    made = cuda.FloatStorage(3)
    assert isinstance(made, cuda.FloatStorage) and not isinstance(made, fb.FloatStorage) and made.device.type == "cuda"
    assert isinstance(fb.ones(2).storage(), fb.FloatStorage) and cuda.LongStorage([1, 2]).tolist() == [1, 2]


def test_what_cannot_be_had_says_what_to_do():
    assert not cuda.tunable.is_enabled() and cuda.tunable.enable(False) is None and cuda.cudaStatus.SUCCESS == 0
    for call, words in ((cuda.tunable.enable, "cuBLASLt"), (lambda: cuda.gds.GdsFile("a", 0), "pinned memory"),
                        (lambda: cuda.green_contexts.GreenContext(), "cuda.Stream"),
                        (lambda: cuda._memory_viz.trace_plot({}), "pytorch.org/memory_viz"),
                        (cuda._sanitizer.enable_cuda_sanitizer, "compute-sanitizer")):
        with pytest.raises(NotImplementedError, match=words):
            call()
    assert issubclass(cuda.DeferredCudaCallError, Exception)
