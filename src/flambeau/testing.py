"""Comparing values in tests, and making tensors for them."""

import cmath
import math
from collections.abc import Mapping, Sequence

import flambeau

_TOLERANCES = {  # dtype -> (rtol, atol)
    flambeau.float16: (1e-3, 1e-5),
    flambeau.bfloat16: (1.6e-2, 1e-5),
    flambeau.float32: (1.3e-6, 1e-5),
    flambeau.float64: (1e-7, 1e-7),
    flambeau.complex64: (1.3e-6, 1e-5),
    flambeau.complex128: (1e-7, 1e-7),
}


def default_tolerances(*values):
    """(rtol, atol) that fit the least exact dtype among tensors, dtypes and numbers.

    >>> import flambeau
    >>> flambeau.testing.default_tolerances(flambeau.ones(1))
    (1.3e-06, 1e-05)
    """
    pairs = [_TOLERANCES.get(_dtype_of(value), (0.0, 0.0)) for value in values]
    return max(rtol for rtol, _ in pairs), max(atol for _, atol in pairs)


def _dtype_of(value):
    if isinstance(value, flambeau.dtype):
        return value
    if isinstance(value, flambeau.Tensor):
        return value.dtype
    if isinstance(value, complex):
        return flambeau.complex128
    return flambeau.float64 if isinstance(value, float) else flambeau.int64


class _Comparison:
    """The options of one `assert_close`, and the walk through containers."""

    def __init__(self, rtol, atol, equal_nan, checks, msg):
        self.rtol, self.atol, self.equal_nan, self.checks, self.msg = rtol, atol, equal_nan, checks, msg

    def fail(self, text, path):
        if path:
            text += "\n\nThe failure occurred for item " + "".join(f"[{key!r}]" for key in path)
        raise AssertionError(self.msg(text) if callable(self.msg) else self.msg or text)

    def compare(self, actual, expected, path=()):
        if isinstance(actual, flambeau.Tensor) and isinstance(expected, flambeau.Tensor):
            self.tensors(actual, expected, path)
        elif _is_array(actual) and _is_array(expected):
            self.tensors(flambeau.as_tensor(actual), flambeau.as_tensor(expected), path)
        elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
            self.mappings(actual, expected, path)
        elif _is_sequence(actual) and _is_sequence(expected):
            if len(actual) != len(expected):
                self.fail(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", path)
            for k, (x, y) in enumerate(zip(actual, expected)):
                self.compare(x, y, (*path, k))
        elif isinstance(actual, (bool, int, float, complex)) and isinstance(expected, (bool, int, float, complex)):
            self.numbers(actual, expected, path)
        elif actual is None or expected is None:
            if actual is not expected:
                self.fail(f"None mismatch: {actual} is not {expected}", path)
        else:
            raise TypeError(f"No comparison pair was able to handle inputs of type {type(actual)} "
                            f"and {type(expected)}.")

    def mappings(self, actual, expected, path):
        missing, extra = expected.keys() - actual.keys(), actual.keys() - expected.keys()
        if missing or extra:
            self.fail("The keys of the mappings do not match:\n"
                      f"Missing keys in the actual mapping: {sorted(missing, key=str)}\n"
                      f"Additional keys in the actual mapping: {sorted(extra, key=str)}", path)
        for key in actual:
            self.compare(actual[key], expected[key], (*path, key))

    def tolerances(self, *values):
        return default_tolerances(*values) if self.rtol is None else (self.rtol, self.atol)

    def numbers(self, actual, expected, path):
        rtol, atol = self.tolerances(actual, expected)
        if self.checks["dtype"] and type(actual) is not type(expected):
            self.fail(f"The (d)types do not match: {type(actual)} != {type(expected)}.", path)
        if actual == expected or (self.equal_nan and cmath.isnan(actual) and cmath.isnan(expected)):
            return
        difference = abs(actual - expected)
        if math.isfinite(abs(expected)) and difference <= atol + rtol * abs(expected):
            return
        relative = difference / abs(expected) if expected != 0 else math.inf
        if rtol == atol == 0:
            self.fail(f"Scalars are not equal!\n\nExpected {expected} but got {actual}.\n"
                      f"Absolute difference: {difference}\nRelative difference: {relative}", path)
        self.fail(f"Scalars are not close!\n\nExpected {expected} but got {actual}.\n"
                  f"Absolute difference: {difference} (up to {atol} allowed)\n"
                  f"Relative difference: {relative} (up to {rtol} allowed)", path)

    def attributes(self, actual, expected, path):
        if actual.shape != expected.shape:
            self.fail(f"The values for attribute 'shape' do not match: {actual.shape} != {expected.shape}.", path)
        for name in ("layout", "device", "dtype"):
            x, y = getattr(actual, name), getattr(expected, name)
            if self.checks[name] and x != y:
                self.fail(f"The values for attribute '{name}' do not match: {x} != {y}.", path)
        if self.checks["stride"] and actual.stride() != expected.stride():
            self.fail("The values for attribute 'stride()' do not match: "
                      f"{actual.stride()} != {expected.stride()}.", path)

    def tensors(self, actual, expected, path):
        rtol, atol = self.tolerances(actual, expected)
        self.attributes(actual, expected, path)
        if actual.is_meta or expected.is_meta or actual.numel() == 0:
            return
        dtype = flambeau.promote_types(actual.dtype, expected.dtype)
        exact = not (dtype.is_floating_point or dtype.is_complex)
        wide = flambeau.int64 if exact else flambeau.complex128 if dtype.is_complex else flambeau.float64
        x, y = actual.detach().to(wide), expected.detach().to(wide)
        difference = (x - y).abs()
        good = (x == y) | (y.abs().isfinite() & (difference <= atol + rtol * y.abs()))
        if self.equal_nan:
            good = good | (x.isnan() & y.isnan())
        if not bool(good.all()):
            self.fail(_report(good, difference, y, rtol, atol), path)


def _report(good, difference, expected, rtol, atol):
    """How many elements differ, and where most."""
    bad, total = int((~good).sum()), good.numel()
    relative = difference.double() / expected.abs().double()
    equal = rtol == atol == 0
    lines = [f"Tensor-likes are not {'equal' if equal else 'close'}!", ""]
    if good.ndim:
        lines.append(f"Mismatched elements: {bad} / {total} ({bad / total:.1%})")
    for name, values, allowed in (("absolute", difference, atol), ("relative", relative, rtol)):
        values = values.double().masked_fill(good, 0.0).reshape(-1)
        at = int(values.argmax())
        limit = "" if equal else f" (up to {allowed} allowed)"
        place = f" at index {_unravel(at, good.shape)}" if good.ndim else ""
        lines.append(f"Greatest {name} difference: {values[at].item()}{place}{limit}")
    return "\n".join(lines)


def _unravel(flat, shape):
    index = []
    for size in reversed(shape):
        flat, k = divmod(flat, size)
        index.append(k)
    return tuple(reversed(index))


def _is_array(value):
    return isinstance(value, flambeau.Tensor) or type(value).__module__ == "numpy"


def _is_sequence(value):
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def assert_close(actual, expected, *, allow_subclasses=True, rtol=None, atol=None, equal_nan=False, check_device=True,
                 check_dtype=True, check_layout=True, check_stride=False, msg=None):
    """Raises AssertionError unless |actual - expected| <= atol + rtol |expected| everywhere.

    Takes tensors, arrays and numbers, and sequences and mappings of them. Without `rtol` and `atol` they follow the
    dtype (float32: 1.3e-6 and 1e-5). `msg`: the message, or a function of the one made here.

    >>> import flambeau
    >>> flambeau.testing.assert_close(flambeau.ones(2), flambeau.ones(2) + 1e-7)
    >>> flambeau.testing.assert_close([1, 2], [1, 3])
    Traceback (most recent call last):
    AssertionError: Scalars are not equal!
    <BLANKLINE>
    Expected 3 but got 2.
    Absolute difference: 1
    Relative difference: 0.3333333333333333
    <BLANKLINE>
    The failure occurred for item [1]
    """
    if (rtol is None) != (atol is None):
        raise ValueError("rtol and atol must both be specified or both be unspecified, "
                         f"but got rtol={rtol} and atol={atol}")
    if not allow_subclasses and type(actual) is not type(expected):
        raise AssertionError(f"The types do not match: {type(actual)} != {type(expected)}")
    checks = {"device": check_device, "dtype": check_dtype, "layout": check_layout, "stride": check_stride}
    _Comparison(rtol, atol, equal_nan, checks, msg).compare(actual, expected)


def _bounds(dtype, low, high):
    if dtype is flambeau.bool:
        return (0 if low is None else low), (2 if high is None else high)
    integral = not (dtype.is_floating_point or dtype.is_complex)
    least = 0 if dtype is flambeau.uint8 else -9
    low = least if low is None else low
    high = (10 if integral else 9) if high is None else high
    if low >= high:
        raise ValueError(f"make_tensor: low must be less than high, got low={low} and high={high}")
    return low, high


def make_tensor(*shape, dtype, device="cpu", low=None, high=None, requires_grad=False, noncontiguous=False,
                exclude_zero=False, memory_format=None):
    """A tensor with values drawn evenly from [low, high), by default [-9, 9) (integers to 9, uint8 from 0).

    >>> import flambeau
    >>> flambeau.testing.make_tensor(2, 3, dtype=flambeau.float32).shape
    torch.Size([2, 3])
    """
    if noncontiguous and memory_format is not None:
        raise ValueError("make_tensor: noncontiguous and memory_format cannot be given together")
    if len(shape) == 1 and isinstance(shape[0], Sequence):
        shape = tuple(shape[0])
    low, high = _bounds(dtype, low, high)
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"make_tensor: requires_grad needs a floating-point or complex dtype, got {dtype}")
    wide = (*shape[:-1], 2 * shape[-1]) if noncontiguous and shape else shape
    if dtype.is_floating_point:
        result = (flambeau.rand(wide, device=device, dtype=flambeau.float64) * (high - low) + low).to(dtype)
        result = result.clamp(max=_below(high, dtype))
    elif dtype.is_complex:
        parts = flambeau.rand((*wide, 2), device=device, dtype=flambeau.float64) * (high - low) + low
        result = flambeau.complex(parts[..., 0], parts[..., 1]).to(dtype)
    else:
        result = flambeau.randint(math.ceil(low), math.ceil(high), wide, device=device).to(dtype)
    if noncontiguous and shape:
        result = result[..., ::2]
    if memory_format is not None:
        result = result.contiguous(memory_format=memory_format)
    if exclude_zero:
        result = result.masked_fill(result == 0, 1)
    return result.requires_grad_(requires_grad)


def _below(high, dtype):
    """The largest value of `dtype` under `high`: rounding must not reach the excluded bound."""
    return high - abs(high) * flambeau.finfo(dtype).eps if high else 0.0


__all__ = ["assert_close", "default_tolerances", "make_tensor"]
