"""Queries about tensors and dtypes, and process-wide settings."""

from . import _C
from ._shown import shown
from .ops.kinds import OPS
from .ops.movement import broadcast_shape


def is_tensor(obj):
    """Whether `obj` is a Tensor."""
    return isinstance(obj, _C.Tensor)


def is_floating_point(input):
    """Whether the tensor's dtype is a floating-point type."""
    return input.is_floating_point()


def is_complex(input):
    """Whether the tensor's dtype is complex."""
    return input.is_complex()


def is_signed(input):
    """Whether the tensor's dtype holds negative numbers."""
    return input.dtype.is_signed


def is_inference(input):
    """Whether the tensor was made in inference mode."""
    return input.is_inference()


def dequantize(tensor):
    """The tensor, or every tensor of a list, in float32: none was ever quantized."""
    return tensor.dequantize() if isinstance(tensor, _C.Tensor) else tuple(t.dequantize() for t in tensor)


def detach_(input):
    """Forgets the tensor's history; returns it."""
    return input.detach_()


def is_nonzero(input):
    """Whether the only element is not zero; RuntimeError for any other number of elements."""
    if input.numel() != 1:
        values = "no values" if input.numel() == 0 else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {values} is ambiguous")
    return bool(input)


def numel(input):
    """Number of elements."""
    return input.numel()


def _two_tensors(op, input, other):
    for which, x in (("input", input), ("other", other)):
        if not isinstance(x, _C.Tensor):
            raise TypeError(f"{op}(): argument '{which}' must be Tensor, not {type(x).__name__}")
    if input.device != other.device:
        raise RuntimeError(f"{op}: tensors of two devices, {input.device} and {other.device}; move one with .to()")


def equal(input, other):
    """Whether both have the same shape and the same elements, as a Python bool.

    >>> import flambeau
    >>> flambeau.equal(flambeau.tensor([1, 2]), flambeau.tensor([1, 2]))
    True
    """
    _two_tensors("equal", input, other)
    return input.shape == other.shape and OPS["eq"](input.detach(), other.detach()).all().item()


def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether |input - other| <= atol + rtol * |other| everywhere, as a Python bool.

    >>> import flambeau
    >>> flambeau.allclose(flambeau.tensor([1.0]), flambeau.tensor([1.0 + 1e-9]))
    True
    """
    _two_tensors("allclose", input, other)
    return OPS["isclose"](input.detach(), other.detach(), rtol, atol, equal_nan).all().item()


def is_conj(input):
    """Whether the tensor is a conjugate that was not computed yet: never, since conj() computes at once."""
    return False


def resolve_conj(input):
    """The tensor itself: conj() computes at once, so that nothing is left to do."""
    return input


def typename(obj):
    """The type's name: 'torch.FloatTensor' for a tensor, 'module.Class' for anything else."""
    if isinstance(obj, _C.Tensor):
        return obj.type()
    kind = type(obj)
    return f"{kind.__module__}.{kind.__qualname__}" if kind.__module__ != "builtins" else kind.__qualname__


def promote_types(type1, type2):
    """The smallest dtype that holds both.

    >>> import flambeau
    >>> flambeau.promote_types(flambeau.int32, flambeau.float16)
    torch.float16
    """
    return _C.promote_types(type1, type2)


def broadcast_shapes(*shapes):
    """The shape that tensors of these shapes broadcast to.

    >>> import flambeau
    >>> flambeau.broadcast_shapes((2, 1), (3,))
    torch.Size([2, 3])
    """
    return _C.Size(broadcast_shape([(s,) if isinstance(s, int) else tuple(s) for s in shapes]))


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


def get_default_dtype():
    """The dtype of new floating-point tensors."""
    return _C.default_dtype()


def set_default_dtype(d):
    """Sets the dtype of new floating-point tensors: float32, float64, float16 or bfloat16."""
    if not isinstance(d, _C.dtype):
        raise TypeError(f"set_default_dtype: expected a floating-point dtype, got {type(d).__name__}")
    if not d.is_floating_point or d.itemsize < 2:
        raise TypeError(f"set_default_dtype: {d} cannot be the default, because it is not floating point of 16 bits or "
                        "more")
    _C.set_default_dtype(d)


def get_num_threads():
    """How many threads large operations use."""
    return _C.num_threads()


def set_num_threads(n):
    """Sets how many threads large operations use; results do not depend on it."""
    if not isinstance(n, int) or n < 1:
        raise RuntimeError(f"set_num_threads expects a positive integer, got {shown(n)}")
    _C.set_num_threads(n)


# bits, exponent bits, mantissa bits
_FLOATS = {
    _C.float16: (16, 5, 10), _C.bfloat16: (16, 8, 7), _C.float32: (32, 8, 23), _C.float64: (64, 11, 52),
    _C.float8_e4m3fn: (8, 4, 3), _C.float8_e5m2: (8, 5, 2),
}


class finfo:
    """Limits of a floating-point dtype: bits, eps, max, min, tiny (= smallest_normal), resolution.

    >>> import flambeau
    >>> flambeau.finfo(flambeau.float32).eps
    1.1920928955078125e-07
    """

    def __init__(self, dtype=None):
        dtype = get_default_dtype() if dtype is None else dtype
        real = dtype.to_real() if dtype.is_complex else dtype
        if real not in _FLOATS:
            raise TypeError(f"finfo: {dtype} is not a floating-point dtype; iinfo describes integers")
        self.bits, exponent, mantissa = _FLOATS[real]
        bias = 2 ** (exponent - 1) - 1
        self.dtype = str(real).removeprefix("torch.")
        self.eps = 2.0 ** -mantissa
        self.tiny = self.smallest_normal = 2.0 ** (1 - bias)
        e4m3 = real is _C.float8_e4m3fn  # no infinity: its largest exponent holds numbers too
        self.max = 448.0 if e4m3 else (2 - 2.0 ** -mantissa) * 2.0 ** bias
        self.min = -self.max
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
        self.min = -2 ** (self.bits - 1) if type.is_signed else 0
        self.max = 2 ** (self.bits - type.is_signed) - 1

    def __repr__(self):
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
