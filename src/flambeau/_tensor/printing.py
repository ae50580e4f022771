"""How tensors are printed: which numbers are shown, with how many digits, and how they are laid out in lines."""

import warnings
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from math import ceil, inf, isfinite

from .. import _C
from .._C import Tensor
from .._shown import shown
from ..ops.kinds import OPS


@dataclass
class PrintOptions:
    """What `set_printoptions` sets."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


PRINT_OPTS = PrintOptions()
_PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=inf),
}


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    """How tensors are printed from now on; an argument left out keeps its value, but for sci_mode (None: decide anew).

    precision: digits after the point. threshold: with more elements than this, only `edgeitems` at each end of a
    dimension are shown. linewidth: characters per line. profile: "default", "short" or "full". sci_mode: scientific
    notation always (True), never (False), or where the numbers ask for it (None).

    >>> import flambeau
    >>> flambeau.set_printoptions(precision=2)
    >>> flambeau.tensor([1.23456])
    tensor([1.23])
    >>> flambeau.set_printoptions(profile="default")
    """
    if profile is not None and profile not in _PROFILES:
        warnings.warn(f"set_printoptions: there is no profile {shown(profile)}, which changes nothing; there are "
                      f"{', '.join(_PROFILES)}", stacklevel=2)
    elif profile is not None:
        start = asdict(_PROFILES[profile])
        for name in ("precision", "threshold", "edgeitems", "linewidth"):
            setattr(PRINT_OPTS, name, start[name])
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    for name, value in given.items():
        if value is not None:
            setattr(PRINT_OPTS, name, value)
    PRINT_OPTS.sci_mode = sci_mode


def get_printoptions():
    """The present options, as a dict of `set_printoptions` arguments."""
    return asdict(PRINT_OPTS)


@contextmanager
def printoptions(**kwargs):
    """`with printoptions(precision=2):` sets options inside the block only."""
    before = get_printoptions()
    set_printoptions(**kwargs)
    try:
        yield
    finally:
        set_printoptions(**before)


class _Formatter:
    """One way to write all numbers of a tensor: as integers, with a point, or scientific; all of one width."""

    def __init__(self, values, floating):
        self.floating = floating
        self.scientific = False
        self.whole = True
        self.width = 1
        if not floating:
            self.width = max(self.width, max((len(f"{value}") for value in values), default=1))
            return
        values = [value for value in values if isfinite(value) and value != 0]
        if not values:
            return
        low, high = min(map(abs, values)), max(map(abs, values))
        self.whole = all(value == ceil(value) for value in values)
        self.scientific = high / low > 1000.0 or high > 1.0e8 or (low < 1.0e-4 and not self.whole)
        if PRINT_OPTS.sci_mode is not None:
            self.scientific = PRINT_OPTS.sci_mode
        self.width = max(map(len, map(self.bare, values))) + (self.whole and not self.scientific)

    def bare(self, value):
        """A floating-point value without padding, and without the point that marks whole ones."""
        if self.scientific:
            return f"{value:.{PRINT_OPTS.precision}e}"
        return f"{value:.0f}" if self.whole else f"{value:.{PRINT_OPTS.precision}f}"

    def __call__(self, value):
        if not self.floating:
            return f"{value}".rjust(self.width)
        point = "." if self.whole and not self.scientific and isfinite(value) else ""
        return (self.bare(value) + point).rjust(self.width)


class _ComplexFormatter:
    """Real and imaginary parts, each by a formatter of its own."""

    def __init__(self, values):
        self.real = _Formatter([value.real for value in values], True)
        self.imag = _Formatter([value.imag for value in values], True)
        self.width = self.real.width + self.imag.width + 1

    def __call__(self, value):
        imag = (self.imag(value.imag) + "j").lstrip()
        return self.real(value.real) + ("" if imag[0] in "+-" else "+") + imag


def _flat(data, dims):
    for _ in range(dims - 1):
        data = [value for part in data for value in part]
    return data if dims else [data]


def _edges(t):
    """The part of `t` that is shown."""
    edge = PRINT_OPTS.edgeitems
    for dim, size in enumerate(t.shape):
        if size > 2 * edge:
            t = OPS["cat"]([t.narrow(dim, 0, edge), t.narrow(dim, size - edge, edge)], dim)
    return t


def _vector(data, size, indent, summarize, write):
    width = write.width + 2
    per_line = max(1, (PRINT_OPTS.linewidth - indent) // width)
    edge = PRINT_OPTS.edgeitems
    items = [write(value) for value in data]
    if summarize and not edge:
        items = ["..."]
    elif summarize and size > 2 * edge:
        items.insert(edge, " ...")
    lines = [", ".join(items[k:k + per_line]) for k in range(0, len(items), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _nested(data, shape, indent, summarize, write):
    if len(shape) == 0:
        return write(data)
    if len(shape) == 1:
        return _vector(data, shape[0], indent, summarize, write)
    parts = [_nested(part, shape[1:], indent + 1, summarize, write) for part in data]
    if summarize and shape[0] > 2 * PRINT_OPTS.edgeitems:
        parts.insert(PRINT_OPTS.edgeitems, "...")
    return "[" + ("," + "\n" * (len(shape) - 1) + " " * (indent + 1)).join(parts) + "]"


def _tensor_str(self, indent):
    """The numbers in their brackets, whose lines but the first begin with `indent` spaces."""
    t, shape = self.detach().as_subclass(Tensor), tuple(self.shape)
    if not t.numel():
        return "[]"
    if t.dtype is _C.float4_e2m1fn_x2:  # two numbers in an element: the bytes, as PyTorch prints them
        t = t.view(_C.uint8).to(_C.float32)
    summarize = t.numel() > PRINT_OPTS.threshold
    data = (_edges(t) if summarize else t).tolist()
    values = _flat(data, len(shape))
    write = _ComplexFormatter(values) if t.is_complex() else _Formatter(values, t.is_floating_point())
    return _nested(data, shape, indent, summarize, write)


def _suffixes(t, plain):
    """What is said after the numbers: device, size, dtype, gradient."""
    found = []
    if t.device.type != "cpu":
        found.append(f"device='{t.device}'")
    if t.is_meta or (plain.ndim != 1 if plain.numel() == 0 else not PRINT_OPTS.edgeitems):
        found.append(f"size={tuple(t.shape)}")
    if t.is_meta or plain.numel() == 0:
        shown = t.dtype is not _C.default_dtype()
    else:
        shown = not seen_in_numbers(t.dtype)
    if shown:
        found.append(f"dtype={t.dtype}")
    return found + history(t)


def seen_in_numbers(dtype):
    """Whether the numbers of a dtype, as they are printed, tell which it is."""
    default = _C.default_dtype()
    complex_default = _C.complex128 if default is _C.float64 else _C.complex64
    return dtype in (default, complex_default, _C.int64, _C.bool)


def history(t):
    """What is said of a tensor's gradient."""
    if t.grad_fn is not None:
        return [f"grad_fn=<{t.grad_fn.name()}>"]
    return ["requires_grad=True"] if t.requires_grad else []


def _add_suffixes(tensor_str, suffixes, indent, force_newline):
    """`tensor_str` and its suffixes, on the last line as long as they fit; force_newline: they begin a line."""
    parts = [tensor_str]
    length = len(tensor_str) - tensor_str.rfind("\n") + 1
    for suffix in suffixes:
        if length + len(suffix) + 2 > PRINT_OPTS.linewidth or force_newline:
            force_newline = False
            parts.append(",\n" + " " * indent + suffix)
            length = indent + len(suffix)
        else:
            parts.append(", " + suffix)
            length += len(suffix) + 2
    return "".join(parts) + ")"


def tensor_repr(inp, *, tensor_contents=None):
    """The text of a tensor; `tensor_contents` stands in for its numbers."""
    kind = type(inp)
    is_plain = kind is Tensor or kind.__name__ == "Parameter"
    prefix = "tensor(" if is_plain else f"{kind.__name__}("
    plain = inp.detach().as_subclass(Tensor)
    if tensor_contents is not None:
        body = tensor_contents
    elif inp.is_meta:
        body = "..."
    else:
        body = _tensor_str(plain, len(prefix))
    text = _add_suffixes(prefix + body, _suffixes(inp, plain), len(prefix), False)
    return f"Parameter({text})" if not is_plain and getattr(inp, "_is_param", False) else text


_str_intern = tensor_repr
