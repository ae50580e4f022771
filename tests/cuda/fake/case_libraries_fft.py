"""Fourier transforms by a cuFFT that is a fake."""

import pytest

import flambeau as fb
from flambeau import _C, fft

from . import FakeLibrary, numbers

FFT = FakeLibrary("cufft")
pytestmark = pytest.mark.usefixtures("own_kernels")
NAMES = [name for name in numbers.battery.NAMES if name.startswith("fft_") and "freq" not in name] + ["stft", "istft"]


@pytest.mark.parametrize("dtype", (fb.float32, fb.complex128), ids=str)
def test_transforms_of_the_op_table(dtype):
    total, before = 0, FFT.calls("execute")
    for name in NAMES:
        agreed, wrong = numbers.compare(name, dtype)
        assert not wrong, wrong[0]
        total += agreed
    assert total > 20 and FFT.calls("execute") - before > total


@pytest.mark.parametrize("dims", ((0,), (2, 0), (1, 2, 3), (3, 1, 0, 2), (0, 1, 2, 3, 4)))
def test_any_dimensions_in_any_order(dims):
    x = fb.linspace(-1, 1, 2 * 3 * 4 * 2 * 3, dtype=fb.float64).view(2, 3, 4, 2, 3) ** 3
    for f in (fft.fftn, fft.ifftn, fft.rfftn, fft.ihfftn, fft.irfftn, fft.hfftn):
        for norm in ("backward", "ortho"):
            assert numbers.same(f(x.cuda(), dim=dims, norm=norm), f(x, dim=dims, norm=norm)), (f, norm)


def test_lengths_pad_and_cut():
    x = fb.linspace(0, 1, 30).view(5, 6) ** 2
    for n in (3, 6, 9):
        for f in (fft.fft, fft.rfft, fft.irfft):
            assert numbers.same(f(x.cuda(), n=n), f(x, n=n))
            assert numbers.same(f(x.t().cuda(), n=n, dim=0), f(x.t(), n=n, dim=0))


def test_what_a_transform_reads_stays():
    x = fft.rfft2(fb.linspace(0, 1, 24).view(4, 6)).cuda()
    before = x.clone()
    fft.irfft2(x)
    assert fb.equal(x.cpu(), before.cpu())


def test_recorded_in_a_graph():
    x = fb.linspace(0, 1, 8).cuda()
    fft.rfft(x)
    graph = fb.cuda.CUDAGraph()
    with fb.cuda.graph(graph):
        y = fft.rfft(x)
    x.copy_(fb.arange(8.0))
    graph.replay()
    assert numbers.same(y, fft.rfft(fb.arange(8.0)))


def test_every_status_in_turn_leaves_everything_usable():
    x = fb.linspace(0, 1, 8)
    expected = fft.fft(x)
    _C._cuda.forget_plans()
    alive = FFT.alive()
    for n in range(1, 20):
        FFT.fail(n, status=2)
        try:
            found = fft.fft(x.cuda())
        except RuntimeError as error:
            assert "cuFFT: CUFFT_ALLOC_FAILED (2) in cufft" in str(error)
        else:
            break
        FFT.fail(0)
        assert numbers.same(fft.fft(x.cuda()), expected)
        _C._cuda.forget_plans()
        assert FFT.alive() == alive
    assert n > 4 and numbers.same(found, expected)


def test_without_the_library_the_error_says_what_to_install(monkeypatch):
    from flambeau.cuda.kernels import libraries
    monkeypatch.setattr(libraries, "path_of", lambda name: None)
    _C._cuda.forget_plans()
    with pytest.raises(NotImplementedError, match="pip install nvidia-cufft-cu12"):
        fft.fft(fb.ones(4).cuda())
