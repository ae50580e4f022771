"""Questions about tensors: functions that answer with a Python value, or with the tensor itself."""

from .. import _C
from ..ops.kinds import OPS
from ..ops.views import broadcast_shape
from .overriding import asked, of_likes, overriding


def is_tensor(obj):
    """Whether `obj` is a Tensor."""
    return isinstance(obj, _C.Tensor)


@of_likes
def is_floating_point(input):
    """Whether the tensor's dtype is a floating-point type."""
    return input.is_floating_point()


@of_likes
def is_complex(input):
    """Whether the tensor's dtype is complex."""
    return input.is_complex()


def is_signed(input):
    """Whether the tensor's dtype holds negative numbers."""
    return input.dtype.is_signed


def is_inference(input):
    """Whether the tensor was made in inference mode."""
    return input.is_inference()


def detach_(input):
    """Forgets the tensor's history; returns it."""
    return input.detach_()


@of_likes
def is_nonzero(input):
    """Whether the only element is not zero; RuntimeError for any other number of elements."""
    if input.numel() != 1:
        values = "no values" if input.numel() == 0 else "more than one value"
        raise RuntimeError(f"is_nonzero: a tensor with {values} is neither true nor false")
    return bool(input)


@of_likes
def numel(input):
    """Number of elements."""
    return input.numel()


def _two_tensors(op, input, other):
    for which, x in (("input", input), ("other", other)):
        if not isinstance(x, _C.Tensor):
            raise TypeError(f"{op}(): argument '{which}' must be Tensor, not {type(x).__name__}")
    if input.device != other.device:
        raise RuntimeError(f"{op}: tensors of two devices, {input.device} and {other.device}; move one with .to()")


def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether |input - other| <= atol + rtol * |other| everywhere, as a Python bool.

    >>> import flambeau
    >>> flambeau.allclose(flambeau.tensor([1.0]), flambeau.tensor([1.0 + 1e-9]))
    True
    """
    _two_tensors("allclose", input, other)
    if input.layout is not _C.strided or other.layout is not _C.strided:
        input, other = input.to_dense(), other.to_dense()
    return OPS["isclose"](input.detach(), other.detach(), rtol, atol, equal_nan).all().item()


def is_conj(input):
    """Whether the tensor is a conjugate that is not computed yet: its memory holds the other value.

    >>> import flambeau
    >>> flambeau.is_conj(flambeau.ones(2, dtype=flambeau.complex64).conj())
    True
    """
    return input.is_conj()


def resolve_conj(input):
    """The values in memory that holds them: a copy of a conjugate that was not computed yet, else the tensor."""
    return OPS["resolve_conj"](input)


def typename(obj):
    """The type's name: 'torch.FloatTensor' for a tensor, 'module.Class' for anything else."""
    if isinstance(obj, _C.Tensor):
        return obj.type()
    if isinstance(obj, _C.Op):
        return f"{obj.__module__}.{obj.__name__}"
    kind = type(obj)
    return f"{kind.__module__}.{kind.__qualname__}" if kind.__module__ != "builtins" else kind.__qualname__


def broadcast_shapes(*shapes):
    """The shape that tensors of these shapes broadcast to.

    >>> import flambeau
    >>> flambeau.broadcast_shapes((2, 1), (3,))
    torch.Size([2, 3])
    """
    shapes = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    if any(n < 0 for shape in shapes for n in shape if isinstance(n, int)):
        raise ValueError(f"broadcast_shapes: sizes must not be negative, got {', '.join(map(str, shapes))}")
    return _C.Size(broadcast_shape(shapes))


def _assert(condition, message):
    """`assert` as a function; AssertionError with the message. Of a traced value, a step of the trace."""
    if not isinstance(condition, _C.Tensor) and hasattr(type(condition), "__torch_function__"):
        found = overriding((condition,), {}, "__torch_function__")
        return asked(_assert, found, (condition, message), {}, lambda types: None)
    if not condition:
        raise AssertionError(message)
