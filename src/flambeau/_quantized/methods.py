"""Methods of quantized tensors that are no operators: codes, scales, printing, copying, pickling."""

from .. import _C
from .._tensor.wrapped import own
from .moving import _same
from .pointwise import _equal
from .printing import quantized_repr
from .schemes import per_channel_affine, per_tensor_affine
from .tensor import PerChannel, PerTensor, QuantizedTensor, values_of, wrap

_TYPES = {_C.quint8: "QUInt8Tensor", _C.qint8: "QInt8Tensor", _C.qint32: "QInt32Tensor"}


def method(function):
    """Decorator: a method of quantized tensors."""
    setattr(QuantizedTensor, function.__name__, function)
    return function


def _property(name, get, doc):
    setattr(QuantizedTensor, name, property(get, doc=doc))


_property("is_quantized", lambda self: True, "Whether it is quantized: yes.")
_property("nbytes", lambda self: self._codes.nbytes, "The bytes of the codes.")


@method
def dequantize(self):
    """The numbers, in float32."""
    return values_of(self)


@method
def int_repr(self):
    """A copy of the codes."""
    return self._codes.clone()


@method
def qscheme(self):
    """How the codes stand for numbers."""
    return self._quantizer.scheme


def _of(self, name, kind):
    if not isinstance(self._quantizer, kind):
        wanted = per_tensor_affine if kind is PerTensor else per_channel_affine
        raise RuntimeError(f"{name}: expected a tensor with scheme {wanted}, got {self.qscheme()}")
    return self._quantizer


@method
def q_scale(self):
    """The scale."""
    return _of(self, "q_scale", PerTensor).scale


@method
def q_zero_point(self):
    """The code of 0."""
    return _of(self, "q_zero_point", PerTensor).zero_point


@method
def q_per_channel_scales(self):
    """The scale of each channel."""
    return _of(self, "q_per_channel_scales", PerChannel).scales


@method
def q_per_channel_zero_points(self):
    """The zero point of each channel."""
    return _of(self, "q_per_channel_zero_points", PerChannel).zero_points


@method
def q_per_channel_axis(self):
    """The dimension of the channels."""
    return _of(self, "q_per_channel_axis", PerChannel).axis


for _name in ("stride", "storage_offset", "data_ptr", "is_contiguous", "untyped_storage", "element_size"):
    def _forward(self, *args, _name=_name, **kwargs):
        return getattr(self._codes, _name)(*args, **kwargs)

    _forward.__name__ = _forward.__qualname__ = _name
    _forward.__doc__ = f"{_name} of the codes."
    method(_forward)


@method
def type(self, dtype=None, non_blocking=False):
    """Without an argument the type's name, as 'torch.quantized.QUInt8Tensor'."""
    if dtype is None:
        return "torch.quantized." + _TYPES[self.dtype]
    return self.to(dtype, non_blocking=non_blocking)


@method
def item(self):
    """The number of a tensor that has one element."""
    return values_of(self).item()


@method
def __float__(self):
    return float(values_of(self))


@method
def __int__(self):
    return int(values_of(self))


@method
def __bool__(self):
    return bool(values_of(self))


@method
def tolist(self):
    """Refused: codes or numbers?"""
    raise RuntimeError("tolist: of a quantized tensor take the numbers, x.dequantize().tolist(), or the codes, "
                       "x.int_repr().tolist()")


def _no_array(self, *args, **kwargs):
    """Refused: NumPy knows no quantized numbers."""
    raise TypeError(f"numpy: {self.dtype} has no counterpart in NumPy; use x.dequantize().numpy(), or the codes, "
                    "x.int_repr().numpy()")


QuantizedTensor.numpy = QuantizedTensor.__array__ = _no_array


@method
def requires_grad_(self, requires_grad=True):
    """Codes have no gradients."""
    if requires_grad:
        raise RuntimeError(f"requires_grad_: only floating-point and complex tensors have gradients, this is "
                           f"{self.dtype}")
    return self


def _set_data(self, value):
    _C.set_like(self, value.detach(), 0)
    self._codes, self._quantizer = value._codes, value._quantizer


QuantizedTensor.data = property(lambda self: _same(self), _set_data, doc="The same tensor without history.")


@method
def equal(self, other):
    """Whether both have the same codes and scale, as a Python bool."""
    return _equal(self, other)


@method
def __repr__(self, *, tensor_contents=None):
    return quantized_repr(self)


@method
def __format__(self, spec):
    return format(self.item(), spec) if spec and not self.ndim else object.__format__(self, spec)


@method
def __reduce_ex__(self, protocol):
    quantizer = self._quantizer
    parts = (quantizer.scale, quantizer.zero_point) if isinstance(quantizer, PerTensor) else \
        (quantizer.scales, quantizer.zero_points, quantizer.axis)
    return _rebuild, (self._codes, parts, str(self.dtype).removeprefix("torch.")), own(self)


def _rebuild(codes, parts, dtype):
    return wrap(codes, (PerTensor if len(parts) == 2 else PerChannel)(*parts), getattr(_C, dtype))


@method
def share_memory_(self):
    """Moves the codes to memory that other processes can share."""
    self._codes.share_memory_()
    return self


@method
def is_shared(self):
    """Whether the codes lie in memory that other processes can share."""
    return self._codes.is_shared()


@method
def resize_(self, *size, memory_format=_C.contiguous_format):
    """Another size over the same memory of codes."""
    size = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    self._codes.resize_(size, memory_format=memory_format)
    found = wrap(self._codes, self._quantizer, self.dtype)
    _C.set_like(self, found, 0)
    return self
