"""Fourier transforms against NumPy in every length and arrangement, derivatives, frames and windows of signals."""

import numpy as np
import pytest

import flambeau
from flambeau import fft
from flambeau.autograd import gradcheck, gradgradcheck

RANDOM = np.random.default_rng(0)


def reals(*shape):
    return RANDOM.normal(size=shape)


def complexes(*shape):
    return reals(*shape) + 1j * reals(*shape)


def same(mine, theirs, tolerance=1e-12):
    assert mine.shape == theirs.shape
    scale = np.abs(theirs).max(initial=1)
    np.testing.assert_allclose(mine.detach().numpy(), theirs, atol=tolerance * scale, rtol=0)


#: short ones; factors 2, 3, 4, 5, 7, 61; a large prime (convolution); long ones (four steps), even and odd
LENGTHS = (*range(1, 18), 30, 61, 67, 77, 128, 243, 256, 360, 509, 1000, 4096, 5000, 6561)


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_lengths(n, rows):
    z, x = complexes(rows, n), reals(rows, n)
    half = z[:, :n // 2 + 1]
    same(fft.fft(flambeau.from_numpy(z)), np.fft.fft(z))
    same(fft.ifft(flambeau.from_numpy(z)), np.fft.ifft(z))
    same(fft.fft(flambeau.from_numpy(z.T.copy()), dim=0), np.fft.fft(z.T, axis=0))
    same(fft.rfft(flambeau.from_numpy(x)), np.fft.rfft(x))
    same(fft.rfft(flambeau.from_numpy(x.T.copy()), dim=0), np.fft.rfft(x.T, axis=0))
    same(fft.irfft(flambeau.from_numpy(half), n), np.fft.irfft(half, n))
    same(fft.hfft(flambeau.from_numpy(half), n), np.fft.hfft(half, n))
    same(fft.ihfft(flambeau.from_numpy(x)), np.fft.ihfft(x))


@pytest.mark.parametrize("n, m", [(5, 8), (8, 5), (200, 300), (300, 200), (67, 134), (300, 67)])
def test_cut_and_padded(n, m):
    z, x = complexes(3, n), reals(3, n)
    same(fft.fft(flambeau.from_numpy(z), m), np.fft.fft(z, m))
    same(fft.rfft(flambeau.from_numpy(x), m), np.fft.rfft(x, m))
    same(fft.irfft(flambeau.from_numpy(z), m), np.fft.irfft(z, m))


@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
@pytest.mark.parametrize("s, dim", [(None, None), ((4, 6), (0, 2)), ((7,), (1,)), (None, (2, 0)), ((3, 3, 3), None)])
def test_several_dimensions(norm, s, dim):
    x, z = reals(4, 5, 6), complexes(4, 5, 6)
    axes = dim if dim is not None or s is None else tuple(range(-len(s), 0))
    for mine, theirs, a in ((fft.fftn, np.fft.fftn, z), (fft.ifftn, np.fft.ifftn, z), (fft.rfftn, np.fft.rfftn, x),
                            (fft.irfftn, np.fft.irfftn, z)):
        same(mine(flambeau.from_numpy(a), s, dim, norm), theirs(a, s, axes, norm))
    same(fft.fft2(flambeau.from_numpy(z), norm=norm), np.fft.fft2(z, norm=norm))
    spectrum = fft.ihfftn(flambeau.from_numpy(x), norm=norm)
    same(fft.hfftn(spectrum, x.shape, norm=norm), x)


def test_layouts_and_dtypes():
    z = complexes(6, 8)
    t = flambeau.from_numpy(z)
    for view, array in ((t.t(), z.T), (t[::2, 1:], z[::2, 1:]), (t[:1].expand(3, 8), np.repeat(z[:1], 3, 0))):
        same(fft.fft(view), np.fft.fft(array))
        same(fft.fft(view, dim=0), np.fft.fft(array, axis=0))
    for dtype, result in ((flambeau.float32, flambeau.complex64), (flambeau.int64, flambeau.complex64),
                          (flambeau.bool, flambeau.complex64), (flambeau.float64, flambeau.complex128)):
        assert fft.fft(flambeau.ones(4).to(dtype)).dtype == result
        assert fft.rfft(flambeau.ones(4).to(dtype)).dtype == result
        assert fft.irfft(flambeau.ones(4).to(dtype)).dtype == flambeau.empty(0, dtype=result).real.dtype
    same(fft.fft(t.to(flambeau.complex64)), np.fft.fft(z), 3e-7)
    assert fft.fft(flambeau.zeros(0, 3)).shape == (0, 3)
    out = flambeau.empty(6, 8, dtype=flambeau.complex128)
    assert fft.fft(t, out=out) is out
    same(out, np.fft.fft(z))


def test_threads_do_not_change_results():
    x = flambeau.from_numpy(complexes(50, 512))
    long = flambeau.from_numpy(complexes(1 << 16))
    before, threads = (fft.fft(x), fft.fft(long)), flambeau.get_num_threads()
    try:
        flambeau.set_num_threads(1)
        assert flambeau.equal(fft.fft(x), before[0]) and flambeau.equal(fft.fft(long), before[1])
    finally:
        flambeau.set_num_threads(threads)


@pytest.mark.parametrize("call, error", [
    (lambda x: fft.fft(x, n=0), RuntimeError), (lambda x: fft.rfft(x + 0j), RuntimeError),
    (lambda x: fft.fft(x, dim=5), IndexError), (lambda x: fft.fftn(x, dim=(0, 0)), RuntimeError),
    (lambda x: fft.fft(x, norm="x"), RuntimeError), (lambda x: fft.fft(x.half()), RuntimeError),
    (lambda x: fft.fftn(x, s=(2, 2, 2)), RuntimeError), (lambda x: fft.fft2(x[0]), IndexError),
    (lambda x: fft.fftn(x, s=(2,), dim=(0, 1)), RuntimeError), (lambda x: fft.irfftn(x, dim=()), RuntimeError),
    (lambda x: fft.irfft(x[:, :1]), RuntimeError), (lambda x: fft.fft(x[0, 0]), IndexError)])
def test_errors(call, error):
    with pytest.raises(error):
        call(flambeau.ones(4, 6))


def test_frequencies():
    for n in range(1, 9):
        same(fft.fftfreq(n, 0.5, dtype=flambeau.float64), np.fft.fftfreq(n, 0.5))
        same(fft.rfftfreq(n, 0.5, dtype=flambeau.float64), np.fft.rfftfreq(n, 0.5))
        x = reals(n, 3)
        same(fft.fftshift(flambeau.from_numpy(x)), np.fft.fftshift(x))
        same(fft.ifftshift(flambeau.from_numpy(x), 0), np.fft.ifftshift(x, 0))


# --- frames ----------------------------------------------------------------------------------------------------------

def spectra(x, n, hop, window, center=True):
    """stft of one signal, frame by frame."""
    x = np.pad(x, n // 2, mode="reflect") if center else x
    full = np.zeros(n)
    left = (n - len(window)) // 2
    full[left:left + len(window)] = window
    return np.stack([np.fft.rfft(x[k:k + n] * full) for k in range(0, len(x) - n + 1, hop)], -1)


@pytest.mark.parametrize("center", [True, False])
def test_stft(center):
    x, window = reals(2, 100), np.hanning(12)[1:-1] + 0.1
    t, w = flambeau.from_numpy(x), flambeau.from_numpy(window)
    expected = np.stack([spectra(row, 16, 3, window, center) for row in x])
    found = flambeau.stft(t, 16, 3, 10, w, center=center, return_complex=True)
    same(found, expected)
    same(flambeau.view_as_complex(t.stft(16, 3, 10, w, center=center, return_complex=False)), expected)
    same(t[0].stft(16, 3, 10, w, center=center, normalized=True, return_complex=True), expected[0] / 4)
    both = t.stft(16, 3, 10, w, center=center, onesided=False, return_complex=True)
    same(both[:, :9], expected)
    if center:
        back = flambeau.istft(found, 16, 3, 10, w, length=100)
        same(back, x, 1e-10)
        same(flambeau.istft(both, 16, 3, 10, w, onesided=False, length=100, return_complex=True).real, x, 1e-10)


def test_stft_errors():
    x = flambeau.ones(40)
    for call in (lambda: flambeau.stft(x, 8), lambda: flambeau.stft(x, 50, center=False, return_complex=True),
                 lambda: flambeau.stft(x, 8, 0, return_complex=True),
                 lambda: flambeau.stft(x, 8, 2, 9, return_complex=True),
                 lambda: flambeau.stft(x, 8, window=flambeau.ones(7), return_complex=True),
                 lambda: flambeau.stft(x + 0j, 8, onesided=True),
                 lambda: flambeau.istft(flambeau.ones(5, 4), 8), lambda: flambeau.istft(flambeau.ones(4, 4) + 0j, 8),
                 lambda: flambeau.istft(flambeau.ones(5, 4) + 0j, 8, window=flambeau.zeros(8))):
        with pytest.raises(RuntimeError):
            call()


def test_derivatives_of_frames():
    x = flambeau.from_numpy(reals(20)).requires_grad_()
    w = (flambeau.from_numpy(reals(6)) + 3).requires_grad_()
    f = lambda x, w: flambeau.stft(x, 8, 3, 6, w, return_complex=True)
    assert gradcheck(f, (x, w)) and gradgradcheck(f, (x, w))
    s = f(x, w).detach().requires_grad_()
    g = lambda s, w: flambeau.istft(s, 8, 3, 6, w, length=18)
    assert gradcheck(g, (s, w), fast_mode=True) and gradgradcheck(g, (s, w), fast_mode=True)


# --- windows ---------------------------------------------------------------------------------------------------------

def test_windows():
    double = {"dtype": flambeau.float64}
    for n in (2, 5, 8):
        for mine, theirs in ((flambeau.hann_window, np.hanning), (flambeau.hamming_window, np.hamming),
                             (flambeau.blackman_window, np.blackman), (flambeau.bartlett_window, np.bartlett)):
            same(mine(n, False, **double), theirs(n))
            same(mine(n, **double), theirs(n + 1)[:-1])
        same(flambeau.kaiser_window(n, False, 5.0, **double), np.kaiser(n, 5.0), 1e-7)
    signal = pytest.importorskip("scipy.signal")
    w = flambeau.signal.windows
    for name, arguments in (("hann", {}), ("hamming", {}), ("blackman", {}), ("bartlett", {}), ("nuttall", {}),
                            ("cosine", {}), ("kaiser", {"beta": 4.0}), ("gaussian", {"std": 2.0}),
                            ("exponential", {"tau": 2.0}), ("general_hamming", {"alpha": 0.7}),
                            ("general_cosine", {"a": [0.5, 0.3, 0.2]})):
        for sym in (True, False):
            for n in (1, 2, 5, 8):
                same(getattr(w, name)(n, sym=sym, **arguments, **double),
                     getattr(signal.windows, name)(n, sym=sym, **arguments), 1e-7)
    with pytest.raises(ValueError):
        w.hann(-1)
    with pytest.raises(RuntimeError):
        flambeau.hann_window(-1)
