"""Short-time Fourier transforms: spectra of the frames of a signal, and the signal back from them."""

from .._shown import shown
from . import fourier
from .kinds import OPS, composite

_SKIP = "tested by name: tests/ops/test_fourier.py"


def _window(name, window, win_length, n_fft, like):
    """The window in the middle of n_fft numbers; absent: ones."""
    if window is not None and (window.ndim != 1 or window.shape[0] != win_length):
        raise RuntimeError(f"{name}: window must hold win_length={shown(win_length)} numbers in 1 dimension, got shape "
                           f"{list(window.shape)}")
    if window is None:
        if win_length == n_fft:
            return None
        window = OPS["ones"](win_length, dtype=like, device=None)
    if win_length < n_fft:
        left = (n_fft - win_length) // 2
        window = OPS["constant_pad_nd"](window, (left, n_fft - win_length - left))
    return window


@composite("stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None,"
           " bool center=True, str pad_mode=\"reflect\", bool normalized=False, bool? onesided=None,"
           " bool? return_complex=None, bool? align_to_window=None) -> Tensor", autocast="float32", skip=_SKIP)
def stft(self, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect", normalized=False,
         onesided=None, return_complex=None, align_to_window=None):
    """Spectra [batch, frequencies, frames] of frames of n_fft numbers, hop_length (n_fft // 4) apart, each multiplied
    by `window` (ones) of win_length (n_fft) numbers. center: the signal is padded, so that frame t lies around t hops;
    normalized: divided by sqrt(n_fft); onesided: of real signals only the first n_fft // 2 + 1 frequencies;
    align_to_window: without padding, the first window (not the first frame) begins with the signal.

    >>> import flambeau
    >>> flambeau.stft(flambeau.ones(8), 4, window=flambeau.ones(4), return_complex=True).shape
    torch.Size([3, 9])
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    complex_signal = self.is_complex() or (window is not None and window.is_complex())
    if return_complex is None:
        if not complex_signal:
            raise RuntimeError("stft: say for this real signal which form the result has: return_complex=True "
                               "(complex numbers), or False (pairs)")
        return_complex = True
    if not (self.is_floating_point() or self.is_complex()):
        raise RuntimeError(f"stft: the signal must be floating point or complex, got {self.dtype}")
    if self.ndim not in (1, 2):
        raise RuntimeError(f"stft: the signal must have 1 dimension, or 2 with a batch, got shape {list(self.shape)}")
    if align_to_window is not None and center:
        raise RuntimeError("stft: align_to_window needs center=False")
    x = self if self.ndim == 2 else self.unsqueeze(0)
    if center:
        x = OPS["pad"](x.unsqueeze(1), (n_fft // 2, n_fft // 2), pad_mode).squeeze(1)
    elif align_to_window:
        left = (n_fft - width) // 2
        x = OPS["constant_pad_nd"](x, (left, n_fft - width - left))
    length = x.shape[-1]
    if not 0 < n_fft <= length:
        raise RuntimeError(f"stft: n_fft must be from 1 to the signal's length {shown(length)}, got {n_fft}")
    if hop <= 0:
        raise RuntimeError(f"stft: hop_length must be positive, got {hop}")
    if not 0 < width <= n_fft:
        raise RuntimeError(f"stft: win_length must be from 1 to n_fft={n_fft}, got {width}")
    window = _window("stft", window, width, n_fft, self.dtype)
    frames = x.unfold(-1, n_fft, hop)
    if window is not None:
        frames = frames * window
    onesided = not complex_signal if onesided is None else onesided
    if onesided and complex_signal:
        raise RuntimeError("stft: a complex signal or window has a spectrum of two sides; leave onesided out")
    transform = fourier.rfft if onesided else fourier.fft
    spectra = transform(frames, norm="ortho" if normalized else None).transpose(1, 2)
    spectra = spectra if self.ndim == 2 else spectra.squeeze(0)
    return spectra if return_complex else OPS["view_as_real"](spectra)


def _overlapped(frames, hop, length):
    """The sum of frames [batch, frames, n] laid `hop` apart: [batch, length]."""
    batch, count, n = frames.shape
    ar = OPS["arange"]
    places = (ar(count, device=frames.device).unsqueeze(-1) * hop + ar(n, device=frames.device)).reshape(-1)
    return frames.new_zeros((batch, length)).index_add(1, places, frames.reshape(batch, count * n))


@composite("istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None,"
           " bool center=True, bool normalized=False, bool? onesided=None, int? length=None,"
           " bool return_complex=False) -> Tensor", autocast="float32", skip=_SKIP)
def istft(self, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False, onesided=None,
          length=None, return_complex=False):
    """The signal whose stft these spectra are, by least squares (Griffin and Lim 1984): frames are multiplied by the
    window, laid over each other and divided by the sum of squared windows, which must vanish nowhere.

    >>> import flambeau
    >>> x, w = flambeau.arange(8.), flambeau.ones(4)
    >>> flambeau.istft(flambeau.stft(x, 4, window=w, return_complex=True), 4, window=w).round(decimals=4)
    tensor([0., 1., 2., 3., 4., 5., 6., 7.])
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    if not self.is_complex():
        raise RuntimeError("istft: the spectrogram must be complex, as from stft with return_complex=True, got "
                           f"{self.dtype}")
    if self.ndim not in (2, 3):
        raise RuntimeError("istft: the spectrogram must have 2 dimensions (frequency, time), or 3 with a batch, got "
                           f"{self.ndim}")
    if self.numel() == 0:
        raise RuntimeError("istft: expected a tensor with at least one element, got shape " + str(list(self.shape)))
    spectra = self if self.ndim == 3 else self.unsqueeze(0)
    frequencies, count = spectra.shape[1:]
    onesided = frequencies != n_fft if onesided is None else onesided
    if frequencies != (n_fft // 2 + 1 if onesided else n_fft):
        raise RuntimeError(f"istft: the spectrogram has {frequencies} frequencies, expected "
                           f"{n_fft // 2 + 1 if onesided else n_fft} for n_fft={n_fft} and onesided={onesided}")
    if not 0 < hop <= width:
        raise RuntimeError(f"istft: expected 0 < hop_length <= win_length, but got hop_length={hop}")
    if not 0 < width <= n_fft:
        raise RuntimeError(f"istft: win_length must be from 1 to n_fft={n_fft}, got {width}")
    if window is not None and window.is_complex() and not return_complex:
        raise RuntimeError("istft: with a complex window the signal is complex; pass return_complex=True")
    if return_complex and onesided:
        raise RuntimeError("istft: a complex signal has a spectrum of two sides; pass onesided=False with "
                           "return_complex=True")
    window = _window("istft", window, width, n_fft, self.real.dtype)
    if window is None:
        window = OPS["ones"](n_fft, dtype=self.real.dtype, device=self.device)
    norm = "ortho" if normalized else None
    spectra = spectra.transpose(1, 2)
    if return_complex:
        frames = fourier.ifft(spectra, norm=norm)
    else:  # of a whole spectrum only the first half counts
        frames = fourier.irfft(spectra.narrow(-1, 0, n_fft // 2 + 1), n_fft, norm=norm)
    total = n_fft + hop * (count - 1)
    signal = _overlapped(frames * window, hop, total)
    weight = _overlapped((window * window).expand(1, count, n_fft), hop, total)
    start = n_fft // 2 if center else 0
    if length is not None:
        end = start + length
    else:
        end = total - n_fft // 2 if center else total
    last = min(end, total)
    signal, weight = signal[:, start:last], weight[:, start:last]
    if weight.numel() and float(weight.abs().min()) <= 1e-11:
        raise RuntimeError("istft: window overlap add min: the sum of squared windows vanishes somewhere")
    signal = signal / weight
    if end > total:
        signal = OPS["constant_pad_nd"](signal, (0, end - total))
    return signal if self.ndim == 3 else signal.squeeze(0)
