"""Dtypes: which one holds the result of two, and the limits of each."""

from .. import _C


def promote_types(type1, type2):
    """The smallest dtype that holds both.

    >>> import flambeau
    >>> flambeau.promote_types(flambeau.int32, flambeau.float16)
    torch.float16
    """
    return _C.promote_types(type1, type2)


def result_type(tensor1, tensor2):
    """The dtype an operation on both (tensors or numbers) has.

    >>> import flambeau
    >>> flambeau.result_type(flambeau.ones(2, dtype=flambeau.int32), 1.5)
    torch.float32
    """
    return _C.result_type(tensor1, tensor2)


def can_cast(from_, to):
    """Whether promotion allows to store `from_` in `to` (a float does not fit into an integer, but the reverse)."""
    def rank(d):
        return 3 if d.is_complex else 2 if d.is_floating_point else 0 if d is _C.bool else 1
    return rank(from_) <= rank(to)


# --- limits ----------------------------------------------------------------------------------------------------------

# bits, exponent bits, mantissa bits
_FLOATS = {
    _C.float16: (16, 5, 10), _C.bfloat16: (16, 8, 7), _C.float32: (32, 8, 23), _C.float64: (64, 11, 52),
    _C.float8_e4m3fn: (8, 4, 3), _C.float8_e5m2: (8, 5, 2), _C.float8_e4m3fnuz: (8, 4, 3),
    _C.float8_e5m2fnuz: (8, 5, 2), _C.float8_e8m0fnu: (8, 8, 0),
}
#: what differs from IEEE's form: (largest, smallest normal, eps)
_UNUSUAL = {
    _C.float8_e4m3fn: (448.0, 2.0**-6, 2.0**-3),  # no infinity: its largest exponent holds numbers too
    _C.float8_e4m3fnuz: (240.0, 2.0**-7, 2.0**-3), _C.float8_e5m2fnuz: (57344.0, 2.0**-15, 2.0**-3),
    _C.float8_e8m0fnu: (2.0**127, 2.0**-127, 1.0),
}


class finfo:
    """Limits of a floating-point dtype: bits, eps, max, min, tiny (= smallest_normal), resolution.

    >>> import flambeau
    >>> flambeau.finfo(flambeau.float32).eps
    1.1920928955078125e-07
    """

    def __init__(self, dtype=None):
        dtype = _C.default_dtype() if dtype is None else dtype
        real = dtype.to_real() if dtype.is_complex else dtype
        if real not in _FLOATS:
            raise TypeError(f"finfo: {dtype} is not a floating-point dtype; iinfo describes integers")
        self.bits, exponent, mantissa = _FLOATS[real]
        bias = 2 ** (exponent - 1) - 1
        self.dtype = str(real).removeprefix("torch.")
        self.eps = 2.0 ** -mantissa
        self.tiny = self.smallest_normal = 2.0 ** (1 - bias)
        self.max = (2 - 2.0 ** -mantissa) * 2.0 ** bias
        if real in _UNUSUAL:
            self.max, self.tiny, self.eps = _UNUSUAL[real]
            self.smallest_normal = self.tiny
        self.min = self.tiny if real is _C.float8_e8m0fnu else -self.max  # powers of two without a sign
        self.resolution = 10.0 ** -int(mantissa * 0.30103)

    def __repr__(self):
        return (f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
                f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})")


class iinfo:
    """Limits of an integer dtype: bits, min, max.

    >>> import flambeau
    >>> flambeau.iinfo(flambeau.int8).max
    127
    """

    def __init__(self, type):
        name = str(type).removeprefix("torch.")
        if type.is_floating_point or type.is_complex or type is _C.bool:
            raise TypeError(f"iinfo: {type} is not an integer dtype; finfo describes floating point")
        self.dtype, self.bits = name, type.itemsize * 8
        signed = name != "quint8" if name.startswith("q") else type.is_signed
        self.min = -2 ** (self.bits - 1) if signed else 0
        self.max = 2 ** (self.bits - signed) - 1

    def __repr__(self):
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
