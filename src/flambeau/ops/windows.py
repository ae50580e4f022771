"""Window functions: tapered weights for the frames of a signal."""

from math import pi

from .. import _C
from .._shown import shown
from .kinds import OPS, composite

_END = "*, dtype? dtype=None, layout? layout=None, device? device=None, bool pin_memory=False, " \
       "bool requires_grad=False) -> Tensor"


# --- flambeau.hann_window and its kind: `periodic` windows leave out the last of one number more ---------------------

def _positions(name, length, periodic, dtype, device, pin_memory):
    """(0, 1, … length - 1 in the dtype the window is computed in, its dtype, the number of steps of a period)."""
    dtype = _C.default_dtype() if dtype is None else dtype
    if not dtype.is_floating_point and not dtype.is_complex:
        raise RuntimeError(f"{name}: a window has fractions, which {dtype} cannot hold")
    if length < 0:
        raise RuntimeError(f"{name}: window_length must not be negative, got {shown(length)}")
    wide = dtype if dtype in (_C.float32, _C.float64) else _C.float32
    positions = OPS["arange"](length, dtype=wide, device=device, pin_memory=pin_memory)
    return positions, dtype, max(length if periodic else length - 1, 1)


def _finish(values, length, dtype, requires_grad):
    values = values.to(dtype) if length != 1 else OPS["ones"](1, dtype=dtype, device=values.device)
    return values.requires_grad_() if requires_grad else values


def _cosines(name, length, periodic, factors, dtype, device, pin_memory, requires_grad):
    """factors[0] - factors[1] cos x + factors[2] cos 2 x …, x once around the circle."""
    k, dtype, period = _positions(name, length, periodic, dtype, device, pin_memory)
    values = k * 0 + factors[0]
    for j, f in enumerate(factors[1:], 1):
        values = values + (k * (2 * pi * j / period)).cos() * (f if j % 2 == 0 else -f)
    return _finish(values, length, dtype, requires_grad)


@composite("hann_window(int window_length, bool periodic=True, " + _END, samples="windows")
def hann_window(window_length, periodic=True, *, dtype=None, layout=None, device=None, pin_memory=False,
                requires_grad=False):
    """(1 - cos x) / 2, x once around the circle.

    >>> import flambeau
    >>> flambeau.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _cosines("hann_window", window_length, periodic, (0.5, 0.5), dtype, device, pin_memory, requires_grad)


@composite("hamming_window(int window_length, bool periodic=True, float alpha=0.54, float beta=0.46, " + _END,
           samples="windows")
def hamming_window(window_length, periodic=True, alpha=0.54, beta=0.46, *, dtype=None, layout=None, device=None,
                   pin_memory=False, requires_grad=False):
    """alpha - beta cos x, x once around the circle.

    >>> import flambeau
    >>> flambeau.hamming_window(2)
    tensor([0.0800, 1.0000])
    """
    return _cosines("hamming_window", window_length, periodic, (alpha, beta), dtype, device, pin_memory, requires_grad)


@composite("blackman_window(int window_length, bool periodic=True, " + _END, samples="windows")
def blackman_window(window_length, periodic=True, *, dtype=None, layout=None, device=None, pin_memory=False,
                    requires_grad=False):
    """0.42 - 0.5 cos x + 0.08 cos 2 x, x once around the circle.

    >>> import flambeau
    >>> flambeau.blackman_window(4).round(decimals=4).abs()
    tensor([0.0000, 0.3400, 1.0000, 0.3400])
    """
    return _cosines("blackman_window", window_length, periodic, (0.42, 0.5, 0.08), dtype, device, pin_memory,
                    requires_grad)


@composite("bartlett_window(int window_length, bool periodic=True, " + _END, samples="windows")
def bartlett_window(window_length, periodic=True, *, dtype=None, layout=None, device=None, pin_memory=False,
                    requires_grad=False):
    """A triangle from 0 up to 1 and down again.

    >>> import flambeau
    >>> flambeau.bartlett_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    k, dtype, period = _positions("bartlett_window", window_length, periodic, dtype, device, pin_memory)
    return _finish(1 - (k * (2 / period) - 1).abs(), window_length, dtype, requires_grad)


@composite("kaiser_window(int window_length, bool periodic=True, float beta=12.0, " + _END, samples="windows")
def kaiser_window(window_length, periodic=True, beta=12.0, *, dtype=None, layout=None, device=None, pin_memory=False,
                  requires_grad=False):
    """I0(beta sqrt(1 - x^2)) / I0(beta) for x from -1 to 1, I0 the modified Bessel function.

    >>> import flambeau
    >>> flambeau.kaiser_window(4, beta=0.)
    tensor([1., 1., 1., 1.])
    """
    k, dtype, period = _positions("kaiser_window", window_length, periodic, dtype, device, pin_memory)
    return _finish(_kaiser(k * (2 / period) - 1, beta), window_length, dtype, requires_grad)


def _kaiser(x, beta):
    i0 = OPS["i0"]
    return i0((1 - x * x).clamp(min=0).sqrt() * beta) / i0(x.new_full((), beta))


# --- signal.windows: `sym` windows are symmetric, the others leave out the last of one number more -------------------

_BY_NAME = ("general_cosine",)
_TAIL = "*, {}bool sym=True, dtype? dtype=None, any layout=None, " \
        "device? device=None, bool requires_grad=False) -> Tensor"


def _record(name, arguments=""):
    return composite(f"signal_windows_{name}(int M, " + _TAIL.format(arguments), namespace=None,
                     aliases=(f"signal.windows.{name}",), samples=None if name in _BY_NAME else "signal_windows",
                     skip="tested by name" if name in _BY_NAME else None)


def _checked(name, M, dtype, layout):
    dtype = _C.default_dtype() if dtype is None else dtype
    if layout is not None and str(layout) != "torch.strided":
        raise ValueError(f"{name}: layout must be strided, got {layout}")
    if M < 0:
        raise ValueError(f"{name}: M, the length of the window, must not be negative, got {shown(M)}")
    if dtype not in (_C.float32, _C.float64):
        raise ValueError(f"{name}: dtype must be float32 or float64, got {dtype}")
    return dtype


def _steps(M, dtype, device):
    return OPS["arange"](M, dtype=dtype, device=device)


def _given(values, M, requires_grad):
    values = values if M != 1 else OPS["ones_like"](values)
    return values.requires_grad_() if requires_grad else values


def _general_cosine(name, M, a, sym, dtype, layout, device, requires_grad):
    dtype = _checked(name, M, dtype, layout)
    k = _steps(M, dtype, device) * (2 * pi / max(M - 1 if sym else M, 1))
    values = k * 0 + a[0]
    for j, f in enumerate(a[1:], 1):
        values = values + (k * j).cos() * (-f if j % 2 else f)
    return _given(values, M, requires_grad)


@_record("general_cosine", "any a=None, ")
def general_cosine(M, *, a=None, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """a[0] - a[1] cos x + a[2] cos 2 x - …, x once around the circle.

    >>> import flambeau
    >>> flambeau.signal.windows.general_cosine(3, a=[0.5, 0.5])
    tensor([0., 1., 0.])
    """
    if a is None:
        raise TypeError("general_cosine() missing 1 required keyword-only argument: 'a'")
    if hasattr(a, "tolist"):
        a = a.tolist()
    if not isinstance(a, (list, tuple)):
        raise TypeError(f"general_cosine: a must be a list or tuple of coefficients, got {type(a).__name__}")
    if not a:
        raise ValueError("general_cosine: at least one coefficient is needed")
    return _general_cosine("general_cosine", M, list(a), sym, dtype, layout, device, requires_grad)


@_record("general_hamming", "float alpha=0.54, ")
def general_hamming(M, *, alpha=0.54, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """alpha - (1 - alpha) cos x, x once around the circle."""
    return _general_cosine("general_hamming", M, [alpha, 1 - alpha], sym, dtype, layout, device, requires_grad)


@_record("hamming")
def hamming(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """0.54 - 0.46 cos x, x once around the circle.

    >>> import flambeau
    >>> flambeau.signal.windows.hamming(3)
    tensor([0.0800, 1.0000, 0.0800])
    """
    return _general_cosine("hamming", M, [0.54, 0.46], sym, dtype, layout, device, requires_grad)


@_record("hann")
def hann(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """(1 - cos x) / 2, x once around the circle.

    >>> import flambeau
    >>> flambeau.signal.windows.hann(3)
    tensor([0., 1., 0.])
    """
    return _general_cosine("hann", M, [0.5, 0.5], sym, dtype, layout, device, requires_grad)


@_record("blackman")
def blackman(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """0.42 - 0.5 cos x + 0.08 cos 2 x, x once around the circle."""
    return _general_cosine("blackman", M, [0.42, 0.5, 0.08], sym, dtype, layout, device, requires_grad)


@_record("nuttall")
def nuttall(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """Nuttall's minimal four-term Blackman-Harris window (1981)."""
    return _general_cosine("nuttall", M, [0.3635819, 0.4891775, 0.1365995, 0.0106411], sym, dtype, layout, device,
                           requires_grad)


@_record("bartlett")
def bartlett(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """A triangle from 0 up to 1 and down again.

    >>> import flambeau
    >>> flambeau.signal.windows.bartlett(3)
    tensor([0., 1., 0.])
    """
    dtype = _checked("bartlett", M, dtype, layout)
    k = _steps(M, dtype, device)
    return _given(1 - (k * (2 / max(M - 1 if sym else M, 1)) - 1).abs(), M, requires_grad)


@_record("cosine")
def cosine(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """Half an arch of the sine."""
    dtype = _checked("cosine", M, dtype, layout)
    return _given(((_steps(M, dtype, device) + 0.5) * (pi / max(M if sym else M + 1, 1))).sin(), M, requires_grad)


@_record("exponential", "float? center=None, float tau=1.0, ")
def exponential(M, *, center=None, tau=1.0, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """exp(-|k - center| / tau); the centre is the middle unless given, which only windows with sym=False may be."""
    dtype = _checked("exponential", M, dtype, layout)
    if tau <= 0:
        raise ValueError(f"exponential: tau must be positive, got {shown(tau)}")
    if sym and center is not None:
        raise ValueError(f"exponential: center={shown(center)} contradicts sym=True; leave it out")
    center = (M if not sym and M > 1 else M - 1) / 2 if center is None else center
    return _given((-(_steps(M, dtype, device) - center).abs() / tau).exp(), M, requires_grad)


@_record("gaussian", "float std=1.0, ")
def gaussian(M, *, std=1.0, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """exp(-(k - middle)^2 / (2 std^2))."""
    dtype = _checked("gaussian", M, dtype, layout)
    if std <= 0:
        raise ValueError(f"gaussian: std must be positive, got {shown(std)}")
    x = (_steps(M, dtype, device) - (M if not sym and M > 1 else M - 1) / 2) / (std * 2 ** 0.5)
    return _given((-x * x).exp(), M, requires_grad)


@_record("kaiser", "float beta=12.0, ")
def kaiser(M, *, beta=12.0, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """I0(beta sqrt(1 - x^2)) / I0(beta) for x from -1 to 1, I0 the modified Bessel function."""
    dtype = _checked("kaiser", M, dtype, layout)
    if beta < 0:
        raise ValueError(f"kaiser: beta must not be negative, got {shown(beta)}")
    k = _steps(M, dtype, device)
    return _given(_kaiser(k * (2 / max(M - 1 if sym else M, 1)) - 1, beta), M, requires_grad)
