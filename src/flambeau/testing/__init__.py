"""Comparing values in tests, and making tensors for them."""

import cmath
import math
from collections.abc import Mapping, Sequence

import flambeau

from .._shown import shown
from ._file_check import FileCheck as FileCheck

_TOLERANCES = {  # dtype -> (rtol, atol)
    flambeau.float16: (1e-3, 1e-5),
    flambeau.bfloat16: (1.6e-2, 1e-5),
    flambeau.float32: (1.3e-6, 1e-5),
    flambeau.float64: (1e-7, 1e-7),
    flambeau.complex64: (1.3e-6, 1e-5),
    flambeau.complex128: (1e-7, 1e-7),
}


_OLDER_TOLERANCES = {
    flambeau.float16: (1e-3, 1e-3), flambeau.float32: (1e-4, 1e-5), flambeau.float64: (1e-5, 1e-8),
}
_NUMBERS = (bool, int, float, complex)


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

    def __init__(self, rtol, atol, equal_nan, checks, msg, subclasses=True):
        self.rtol, self.atol, self.equal_nan, self.checks, self.msg = rtol, atol, equal_nan, checks, msg
        self.subclasses = subclasses

    def fail(self, text, path):
        if path:
            text += "\nat actual" + "".join(f"[{shown(key)}]" for key in path)
        raise AssertionError(self.msg(text) if callable(self.msg) else self.msg or text)

    def compare(self, actual, expected, path=()):
        if not self.subclasses and type(actual) is not type(expected):
            self.no_pair(actual, expected)
        if isinstance(actual, flambeau.Tensor) and isinstance(expected, flambeau.Tensor):
            self.tensors(actual, expected, path)
        elif _is_array(actual) and _is_array(expected):
            self.tensors(flambeau.as_tensor(actual), flambeau.as_tensor(expected), path)
        elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
            self.mappings(actual, expected, path)
        elif _is_sequence(actual) and _is_sequence(expected):
            if len(actual) != len(expected):
                self.fail(f"actual has {len(actual)} entries, expected {len(expected)}", path)
            for k, (x, y) in enumerate(zip(actual, expected)):
                self.compare(x, y, (*path, k))
        elif isinstance(actual, bool) and isinstance(expected, bool):
            if actual is not expected:
                self.fail(f"actual is {actual}, expected {expected}", path)
        elif isinstance(actual, _NUMBERS) and isinstance(expected, _NUMBERS):
            self.numbers(actual, expected, path)
        elif actual is None or expected is None:
            if actual is not expected:
                self.fail(f"actual is {actual}, expected {expected}", path)
        else:
            self.no_pair(actual, expected)

    @staticmethod
    def no_pair(actual, expected):
        raise TypeError(f"assert_close: there is no way to compare a {type(actual).__name__} with a "
                        f"{type(expected).__name__}")

    def mappings(self, actual, expected, path):
        missing, extra = expected.keys() - actual.keys(), actual.keys() - expected.keys()
        if missing or extra:
            self.fail("actual and expected have different keys.\n"
                      f"missing from actual: {sorted(missing, key=str)}\n"
                      f"in actual only: {sorted(extra, key=str)}", path)
        for key in actual:
            self.compare(actual[key], expected[key], (*path, key))

    def tolerances(self, *values):
        return default_tolerances(*values) if self.rtol is None else (self.rtol, self.atol)

    def numbers(self, actual, expected, path):
        rtol, atol = self.tolerances(actual, expected)
        if self.checks["type"] and type(actual) is not type(expected):
            self.fail(f"actual has type {type(actual).__name__}, expected {type(expected).__name__}", path)
        if actual == expected or (self.equal_nan and cmath.isnan(actual) and cmath.isnan(expected)):
            return
        difference = abs(actual - expected)
        if math.isfinite(abs(expected)) and difference <= atol + rtol * abs(expected):
            return
        relative = difference / abs(expected) if expected != 0 else math.inf
        self.fail(_scalar_report(actual, expected, difference, relative, rtol, atol), path)

    def attributes(self, actual, expected, path):
        if actual.shape != expected.shape:
            self.fail(f"actual has shape {list(actual.shape)}, expected {list(expected.shape)}", path)
        for name in ("layout", "device", "dtype"):
            x, y = getattr(actual, name), getattr(expected, name)
            if self.checks[name] and x != y:
                self.fail(f"actual has {name} {x}, expected {y}", path)
        if self.checks["stride"] and actual.stride() != expected.stride():
            self.fail(f"actual has strides {actual.stride()}, expected {expected.stride()}", path)

    def nested(self, actual, expected, path):
        if not (actual.is_nested and expected.is_nested):
            self.fail(f"{'actual' if actual.is_nested else 'expected'} is nested, the other is not", path)
        for name in ("layout", "dtype"):
            x, y = getattr(actual, name), getattr(expected, name)
            if self.checks[name] and x != y:
                self.fail(f"actual has {name} {x}, expected {y}", path)
        if actual.layout is expected.layout is flambeau.jagged and actual.shape != expected.shape:
            self.fail(f"actual has shape {list(actual.shape)}, expected {list(expected.shape)}", path)
        self.compare(actual.unbind(), expected.unbind(), path)

    def quantized(self, actual, expected, path):
        x, y = (t.qscheme() if t.is_quantized else None for t in (actual, expected))
        if x is not y:
            self.fail(f"actual has qscheme {x}, expected {y}", path)
        self.tensors(actual.dequantize(), expected.dequantize(), path)

    def tensors(self, actual, expected, path):
        if actual.is_nested or expected.is_nested:
            return self.nested(actual, expected, path)
        self.attributes(actual, expected, path)
        if actual.is_quantized or expected.is_quantized:
            return self.quantized(actual, expected, path)
        rtol, atol = self.tolerances(actual, expected)
        if actual.is_meta or expected.is_meta or actual.numel() == 0:
            return
        dtype = flambeau.promote_types(actual.dtype, expected.dtype)
        if dtype.itemsize == 1 and dtype.is_floating_point:
            dtype = flambeau.float32
        exact = not (dtype.is_floating_point or dtype.is_complex)
        wide = flambeau.int64 if exact else dtype
        x, y = (t.detach().to_dense().as_subclass(flambeau.Tensor).to(wide) for t in (actual, expected))
        good = flambeau.isclose(x, y, rtol=rtol, atol=atol, equal_nan=self.equal_nan)
        if bool(good.all()):
            return
        if x.ndim == 0:
            difference = abs(x - y).item()
            relative = difference / abs(y.item()) if y.item() != 0 else math.inf
            self.fail(_scalar_report(actual.item(), expected.item(), difference, relative, rtol, atol), path)
        self.fail(_report(good, (x - y).abs(), y, rtol, atol), path)


def _scalar_report(actual, expected, difference, relative, rtol, atol):
    if rtol == atol == 0:
        return f"actual is {actual}, expected {expected}: off by {difference}"
    return (f"actual is {actual}, expected {expected}\n"
            f"absolute difference {difference}, allowed atol={atol}\n"
            f"relative difference {relative}, allowed rtol={rtol}")


def _report(good, difference, expected, rtol, atol):
    """How many elements differ, and where most."""
    bad, total = int((~good).sum()), good.numel()
    relative = difference / expected.abs()
    equal = rtol == atol == 0
    lines = [f"actual and expected differ in {bad} of {total} elements ({bad / total:.1%})"]
    for name, values, allowed in (("absolute", difference, f"atol={atol}"), ("relative", relative, f"rtol={rtol}")):
        values = values.masked_fill(good, 0).reshape(-1)
        at = int(values.argmax())
        limit = "" if equal else f", allowed {allowed}"
        lines.append(f"largest {name} difference {values[at].item()} at index {_unravel(at, good.shape)}{limit}")
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
    AssertionError: actual is 2, expected 3: off by 1
    at actual[1]
    """
    if (rtol is None) != (atol is None):
        raise ValueError(f"assert_close: rtol and atol must be given together; {'rtol' if rtol is None else 'atol'} is "
                         "missing")
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value is not None and not value >= 0:
            raise ValueError(f"assert_close: {name} must be >= 0, got {value}")
    checks = {"device": check_device, "dtype": check_dtype, "type": check_dtype, "layout": check_layout,
              "stride": check_stride}
    _Comparison(rtol, atol, equal_nan, checks, msg, allow_subclasses).compare(actual, expected)


def assert_allclose(actual, expected, rtol=None, atol=None, equal_nan=True, msg=""):
    """The older form of assert_close: anything that makes a tensor is compared, dtypes may differ."""
    if not isinstance(actual, flambeau.Tensor):
        actual = flambeau.tensor(actual)
    if not isinstance(expected, flambeau.Tensor):
        expected = flambeau.tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        pairs = [_OLDER_TOLERANCES.get(t.dtype, (0.0, 0.0)) for t in (actual, expected)]
        rtol, atol = max(r for r, _ in pairs), max(a for _, a in pairs)
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=True, check_dtype=False,
                 check_stride=False, msg=msg or None)


def _bounds(dtype, low, high):
    """The interval that values are drawn from, checked against what the dtype holds."""
    integral = not (dtype.is_floating_point or dtype.is_complex)
    if dtype is flambeau.bool:
        least, most, lowest, highest = 0, 2, 0, 2
    elif integral:
        info = flambeau.iinfo(dtype)
        lowest, highest = info.min, info.max + (info.bits < 64)
        least, most = (-9 if dtype.is_signed else 0), 10
    else:
        info = flambeau.finfo(dtype)
        lowest, highest, least, most = info.min, info.max, -9, 9
    low, high = (least if low is None else low), (most if high is None else high)
    if any(isinstance(value, float) and math.isnan(value) for value in (low, high)):
        raise ValueError(f"make_tensor: low and high must be numbers, got low={low} and high={high}")
    if low > high or (low == high and integral) or math.inf == low:
        raise ValueError(f"make_tensor: low must be below high, got low={low} and high={high}")
    if high < lowest or low >= highest:
        raise ValueError(f"make_tensor: [{low}, {high}) lies outside what {dtype} can hold, [{lowest}, {highest})")
    low, high = max(low, lowest), min(high, highest)
    return (math.ceil(low), math.ceil(high)) if integral else (low, high)


def make_tensor(*shape, dtype, device="cpu", low=None, high=None, requires_grad=False, noncontiguous=False,
                exclude_zero=False, memory_format=None):
    """A tensor with values drawn evenly from [low, high), by default [-9, 9) (integers to 9, unsigned from 0).

    exclude_zero: zeros become the smallest positive number of the dtype.

    >>> import flambeau
    >>> flambeau.testing.make_tensor(2, 3, dtype=flambeau.float32).shape
    torch.Size([2, 3])
    """
    if noncontiguous and memory_format is not None:
        raise ValueError(f"make_tensor: noncontiguous={noncontiguous} and memory_format={memory_format} exclude each "
                         "other")
    if len(shape) == 1 and isinstance(shape[0], Sequence):
        shape = tuple(shape[0])
    integral = not (dtype.is_floating_point or dtype.is_complex)
    if requires_grad and integral:
        raise ValueError(f"make_tensor: requires_grad=True needs a floating-point or complex dtype, got {dtype}")
    wide = (*shape[:-1], 2 * shape[-1]) if noncontiguous and shape and math.prod(shape) > 1 else shape
    result = _drawn(wide, dtype, device, low, high)
    if wide is not shape:
        result = result[..., 1::2]
    if memory_format is not None:
        result = result.contiguous(memory_format=memory_format)
    if exclude_zero:
        smallest = 1 if integral else flambeau.finfo(dtype).tiny
        result = result.masked_fill_(result == 0, smallest) if dtype.itemsize > 1 or integral else result
    return result.requires_grad_(requires_grad)


def _drawn(shape, dtype, device, low, high):
    if dtype.is_complex:
        made = flambeau.empty(shape, device=device, dtype=dtype)  # the parts are the view: tests ask whose view is what
        flambeau.view_as_real(made).copy_(_drawn((*shape, 2), dtype.to_real(), device, low, high))
        return made
    low, high = _bounds(dtype, low, high)
    if not dtype.is_floating_point:
        return flambeau.randint(low, high, shape, device=device, dtype=dtype)
    drawn = flambeau.float32 if dtype.itemsize == 1 else dtype
    return flambeau.empty(shape, device=device, dtype=drawn).uniform_(low, high).to(dtype)


__all__ = ["FileCheck", "assert_allclose", "assert_close", "default_tolerances", "make_tensor"]
