"""Tensor methods that are not operators: conversion, gradients, exchange with NumPy, iteration."""

import importlib

from .. import _C
from .._C import Tensor
from .._shown import shown
from ..autograd._call import backward as _backward
from ..ops import views
from ..ops.copies import _to_copy
from ..ops.kinds import OPS
from ..utils.hooks import RemovableHandle
from . import queries
from .overriding import _modes, ask, of_overrides, overrides, takes_dispatch

#: dtypes, memory formats and layouts that are public in flambeau
CONSTANTS = (
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
    "float8_e8m0fnu", "float4_e2m1fn_x2", "complex32", "qint8", "quint8", "qint32", "contiguous_format",
    "channels_last", "channels_last_3d", "preserve_format", "strided", "sparse_coo", "sparse_csr", "sparse_csc",
    "sparse_bsr", "sparse_bsc", "jagged",
)


def method(function):
    """Decorator: the function is a Tensor method of that name."""
    setattr(Tensor, function.__name__, function)
    return function


# --- conversion -------------------------------------------------------------------------------------------------------

def _target(args, dtype, device):
    """dtype and device from the positional forms of `to`: (dtype), (device, dtype), (other)."""
    args = list(args)
    if args and isinstance(args[0], Tensor):
        other = args.pop(0)
        return other.dtype, other.device, args
    if args and isinstance(args[0], _C.dtype):
        return args.pop(0), device, args
    if args and (args[0] is None or isinstance(args[0], (_C.device, str, int))):
        device = args.pop(0) or device
        if args and (args[0] is None or isinstance(args[0], _C.dtype)):
            dtype = args.pop(0) or dtype
    elif args and isinstance(args[0], type):
        dtype = args.pop(0)
    return dtype, device, args


def _converted(self, *args, dtype=None, device=None, non_blocking=False, copy=False, memory_format=None, other=None):
    """`to` in all its forms: (dtype), (device, dtype), (other), each with non_blocking, copy and memory_format."""
    if other is not None:
        args = (other, *args)
    dtype, device, rest = _target(args, dtype, device)
    if rest:  # non_blocking, copy by position
        non_blocking, copy = rest[0], rest[1] if len(rest) > 1 else copy
        if len(rest) > 2 or not all(isinstance(x, (bool, int)) for x in rest):
            raise TypeError(f"to(): unexpected arguments {rest}; it takes a dtype, a device, or a tensor")
    device = self.device if device is None else _C.placed_device(device)
    same = (dtype is None or dtype is self.dtype) and device == self.device
    if same and not copy:
        return self if memory_format in (None, _C.preserve_format) else self.contiguous(memory_format=memory_format)
    if non_blocking and "cuda" in (device.type, self.device.type):
        result = _to_copy(self, dtype=dtype, device=device, non_blocking=True)
    else:
        result = _to_copy(self, dtype=dtype, device=device)
    return result if memory_format in (None, _C.preserve_format) else result.contiguous(memory_format=memory_format)


_C.set_to_handler(_converted)


@method
def __rdiv__(self, other):
    """other / self, by the name that PyTorch keeps for it."""
    return self.reciprocal() * other


@method
def cpu(self, memory_format=None):
    """This tensor on the CPU."""
    return self.to("cpu") if memory_format is None else self.to("cpu", memory_format=memory_format)


@method
def cuda(self, device=None, non_blocking=False, memory_format=None):
    """This tensor on a CUDA device, the current one where none is named; itself where it is there.

    RuntimeError where there is no such device.
    """
    if isinstance(device, int):
        device = _C.device("cuda", device)
    elif device is not None and _C.device(device).type != "cuda":
        raise RuntimeError(f"cuda(): expected a CUDA device, got {shown(device)}")
    return self.to("cuda" if device is None else device, non_blocking=bool(non_blocking), memory_format=memory_format)


def _type_named(name):
    """(dtype, kind of device) of a type's name, as 'torch.FloatTensor' or 'torch.cuda.FloatTensor'."""
    names = {"torch." + v: k for k, v in TYPE_NAMES.items()} | {"torch.Tensor": _C.default_dtype()}
    plain = name.replace("torch.cuda.", "torch.", 1).replace("torch.sparse.", "torch.", 1)
    if plain not in names:
        raise ValueError(f"invalid type: {shown(name)}; known: {', '.join(names)}")
    return names[plain], "cuda" if name.startswith("torch.cuda.") else "cpu"


def _type(self, dtype=None, non_blocking=False):
    """Without an argument the type's name, as 'torch.FloatTensor'; else this tensor in that dtype, and on the device of
    that kind.

    Takes a dtype, a type's name, or a type: x.type(flambeau.LongTensor). RuntimeError for types of CUDA where there is
    no device.
    """
    if dtype is None:
        place = "torch.cuda." if self.is_cuda else "torch."
        return place + "sparse." * self.is_sparse + TYPE_NAMES[self.dtype]
    device, name = None, dtype
    if isinstance(dtype, str):
        dtype, device = _type_named(dtype)
    elif isinstance(dtype, type) and isinstance(getattr(dtype, "dtype", None), _C.dtype):  # flambeau.LongTensor
        name, dtype, device = f"{dtype.__module__}.{dtype.__name__}", dtype.dtype, "cuda" if dtype.is_cuda else "cpu"
    elif isinstance(dtype, type) and issubclass(dtype, Tensor):  # flambeau.Tensor
        dtype = _C.default_dtype()
    if device is None or device == self.device.type or self.is_meta:
        return self.to(dtype, non_blocking=bool(non_blocking))
    if device == "cuda" and not _C._cuda.available():
        raise RuntimeError(f"type {name} not available: there is no CUDA device")
    return self.to(device, dtype, non_blocking=bool(non_blocking))


TYPE_NAMES = {
    _C.float32: "FloatTensor", _C.float64: "DoubleTensor", _C.float16: "HalfTensor", _C.bfloat16: "BFloat16Tensor",
    _C.uint8: "ByteTensor", _C.int8: "CharTensor", _C.int16: "ShortTensor", _C.int32: "IntTensor",
    _C.int64: "LongTensor", _C.bool: "BoolTensor", _C.complex64: "ComplexFloatTensor",
    _C.complex128: "ComplexDoubleTensor", _C.uint16: "UInt16Tensor", _C.uint32: "UInt32Tensor",
    _C.uint64: "UInt64Tensor",
}


Tensor.type = _type


@method
def new(self, *args, **kwargs):
    """A tensor of this dtype by the rules of `Tensor(...)`: sizes, a sequence of numbers, a tensor, or a storage.

    >>> import flambeau
    >>> flambeau.tensor([1]).new([2, 3])
    tensor([2, 3])
    """
    return _C._legacy_tensor(self.dtype, args, kwargs)


@method
def type_as(self, other):
    """This tensor in the dtype and on the device of `other`."""
    return self.to(other)


# --- gradients --------------------------------------------------------------------------------------------------------

@method
def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """Adds the gradient of this tensor with respect to every leaf to the leaf's `grad`.

    `gradient` (same shape) is the gradient of what follows; a one-element tensor needs none.

    >>> import flambeau
    >>> x = flambeau.tensor([1., 2.], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """
    plain = type(self) is Tensor
    if not plain or _modes.function:
        if overrides(self):
            given = {"gradient": gradient, "retain_graph": retain_graph, "create_graph": create_graph, "inputs": inputs}
            return ask(Tensor.backward, self, (), given)
        plain = not takes_dispatch(type(self))  # else the gradient is of the class, too
    if plain and gradient is None and not create_graph and inputs is None:
        return _C.backward_scalar(self, bool(retain_graph))
    return _backward(self, gradient, retain_graph, create_graph, inputs=inputs)


@method
@of_overrides
def register_hook(self, hook):
    """`hook(grad)` runs whenever this tensor's gradient is computed; what it returns (if not None) replaces it.

    >>> import flambeau
    >>> x = flambeau.ones(2, requires_grad=True)
    >>> handle = x.register_hook(lambda g: g * 3)
    >>> x.sum().backward()
    >>> x.grad
    tensor([3., 3.])
    """
    return _register(_C.tensor_hooks(self), hook)


@method
@of_overrides
def register_post_accumulate_grad_hook(self, hook):
    """`hook(tensor)` runs after a gradient was added to this leaf's `grad`."""
    return _register(_C.accumulate_hooks(self), hook)


@method
@of_overrides
def retain_grad(self):
    """A non-leaf tensor keeps its gradient in `grad` during backward."""
    _C.retain_grad(self)


def _register(hooks, hook):
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


# --- operators that are properties ----------------------------------------------------------------------------------

def _assign(part, value):
    part.copy_(value) if isinstance(value, Tensor) else part.fill_(value)


def _conjugate_transpose(self):
    if self.dim() not in (0, 2):
        raise RuntimeError(f"Tensor.H: expected a matrix, got {self.dim()} dimensions; mH transposes the last two")
    return self if self.dim() == 0 else views.adjoint(self)


class _NoImaginaryPart(RuntimeError, AttributeError):
    """What `imag` of real numbers raises: PyTorch's type, and the one that `hasattr` understands."""


def _imaginary_part(self):
    try:
        return views.imag(self)
    except RuntimeError as error:
        if self.is_complex():
            raise
        raise _NoImaginaryPart(str(error)) from None


Tensor._grad = Tensor.grad  # optimizers of others set it
Tensor.T = property(views.numpy_T, doc="The dimensions in reverse order.")
Tensor.mT = property(views.mT, doc="The last two dimensions exchanged.")
Tensor.mH = property(views.adjoint, doc="The last two dimensions exchanged, conjugated.")
Tensor.H = property(_conjugate_transpose, doc="The conjugate transpose of a matrix.")
Tensor.real = property(views.real, lambda self, value: _assign(views.real(self), value),
                       doc="The real parts, as a view.")
Tensor.imag = property(_imaginary_part, lambda self, value: _assign(views.imag(self), value),
                       doc="The imaginary parts, as a view.")


Tensor._cdata = property(id, doc="A number that tells this tensor from all others that there are.")


# --- shape in place ---------------------------------------------------------------------------------------------------

@method
def resize_(self, *sizes, memory_format=None):
    """Gives this tensor another shape, in the order of a memory format (contiguous unless another is asked for);
    memory grows where it must, new elements are uninitialised.

    >>> import flambeau
    >>> flambeau.tensor([1, 2, 3]).resize_(2)
    tensor([1, 2])
    """
    if memory_format is _C.preserve_format:
        raise RuntimeError("resize_: preserve_format says no order here; use resize_as_, or name a format")
    shape = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    if memory_format in (None, _C.contiguous_format):
        return _C.resize(self, shape)
    strides = OPS["empty"](shape, device="meta", memory_format=memory_format).stride()  # before anything is changed
    _C.resize(self, shape)._set_storage(self, self.storage_offset(), shape, strides)
    return self


@method
def resize_as_(self, the_template, memory_format=None):
    """resize_ to another tensor's shape, with preserve_format also in its order. A tensor of that shape stays as it is,
    unless a format is named."""
    if memory_format is None and self.shape == the_template.shape:
        return self
    if memory_format is _C.preserve_format:
        memory_format = next((f for f in (_C.contiguous_format, _C.channels_last, _C.channels_last_3d)
                              if the_template.is_contiguous(memory_format=f)), None)
    return self.resize_(the_template.shape, memory_format=memory_format)


@method
def resize(self, *sizes):
    """The same elements in another shape, the older name of `reshape`; unlike `resize_`, their number stays.

    >>> import flambeau
    >>> flambeau.ones(2, 3).resize(6).shape
    torch.Size([6])
    """
    return self.reshape(*sizes)


@method
def resize_as(self, tensor):
    """The same elements in the shape of `tensor`, the older name of `reshape_as`."""
    return self.reshape(tensor.shape)


# --- Python's protocols -----------------------------------------------------------------------------------------------

@method
def __iter__(self):
    if self.ndim == 0:
        raise TypeError("a tensor without dimensions cannot be iterated over; .item() is its value")
    return iter(self.unbind(0))


@method
def __reversed__(self):
    return self if self.ndim == 0 else self.flip(0)


@method
@of_overrides
def __contains__(self, element):
    if isinstance(element, (Tensor, int, float, complex, bool)):
        return bool((element == self).any().item())
    raise RuntimeError(f"`in`: expected a number or a Tensor on the left, got {type(element).__name__}")


@method
def __complex__(self):
    if self.numel() != 1:
        raise ValueError(f"complex(): only a tensor of one element is a number, got {self.numel()} elements")
    return complex(self.item())


@method
@of_overrides
def __format__(self, spec):
    if self.ndim == 0 and not self.is_meta and type(self) is Tensor:
        return self.item().__format__(spec)
    return object.__format__(self, spec)


@method
def where(self, condition, other):
    """self where the condition holds, other elsewhere.

    >>> import flambeau
    >>> flambeau.tensor([1., 2.]).where(flambeau.tensor([True, False]), 0.)
    tensor([1., 0.])
    """
    return OPS["where"](condition, self, other)


@method
def is_same_size(self, other):
    """Whether both have the same shape."""
    return self.shape == other.shape


@method
def polygamma(self, n):
    """The n-th derivative of digamma at each element."""
    return OPS["polygamma"](n, self)


@method
def polygamma_(self, n):
    """polygamma, written into self."""
    if not self.is_floating_point():
        raise RuntimeError(f"polygamma_: the result is floating point, which a tensor of {self.dtype} cannot hold; use "
                           "polygamma")
    return self.copy_(OPS["polygamma"](n, self.clone() if self.requires_grad else self))


for _function in (queries.allclose, queries.is_nonzero):
    method(_function)


@method
def is_set_to(self, tensor):
    """Whether both are the same view of the same memory."""
    return (self.data_ptr() == tensor.data_ptr() and self.shape == tensor.shape and self.stride() == tensor.stride())


# --- printing, copying, pickling: their modules are loaded when first used ------------------------------------------

@method
@of_overrides
def __repr__(self, *, tensor_contents=None):
    return importlib.import_module("flambeau._tensor.printing").tensor_repr(self, tensor_contents=tensor_contents)


@method
def __reduce_ex__(self, protocol):
    return importlib.import_module("flambeau._tensor.copying").reduce_tensor(self)


@method
def __deepcopy__(self, memo):
    return importlib.import_module("flambeau._tensor.copying").deepcopy_tensor(self, memo)


@method
def swapaxes_(self, axis0, axis1):
    """`transpose_` under NumPy's name."""
    return self.transpose_(axis0, axis1)
