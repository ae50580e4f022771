"""Sample calls of Fourier transforms and window functions."""

from .calls import call


def fft_one(m):
    yield call(m.f(5))
    yield call(m.f(2, 4))
    yield call(m.f(3, 4), 6, 0)
    yield call(m.f(3, 4), 3, -1, "ortho")
    yield call(m.f(2, 7, 2), dim=1, norm="forward")
    yield call(m.f(0, 3))


def fft_several(m):
    yield call(m.f(3, 4))
    yield call(m.f(2, 3, 4), (4, 2), (0, 2))
    yield call(m.f(2, 3, 4), dim=(1, 2), norm="ortho")
    yield call(m.f(3, 5), (3, -1), (-2, -1), "forward")


def fft_real(m):
    for sample in fft_one(m):
        if "complex" not in str(m.dtype):
            yield sample


def fft_several_real(m):
    for sample in fft_several(m):
        if "complex" not in str(m.dtype):
            yield sample


def fft_freq(m):
    yield call(4)
    yield call(5, 0.5)
    yield call(1)


def fft_shift(m):
    yield call(m.f(5))
    yield call(m.f(3, 4))
    yield call(m.f(3, 4), 1)
    yield call(m.f(3, 4), (0,))


def windows(m):
    for n in (0, 1, 2, 5):
        yield call(n)
    yield call(4, False)


def signal_windows(m):
    for n in (0, 1, 2, 5):
        yield call(n)
    yield call(4, sym=False)


SIGNAL_FORMS = {
    "fft_one": fft_one, "fft_several": fft_several, "fft_real": fft_real, "fft_several_real": fft_several_real,
    "fft_freq": fft_freq, "fft_shift": fft_shift, "windows": windows, "signal_windows": signal_windows,
}
