"""Tensors from Python data."""

import importlib

from .. import _C
from .overriding import _modes, asked, has_torch_function, tell_mode

_cuda_is_open = _C._cuda.opened


def _finished(t, device, requires_grad):
    t = _C.placed(t, device)
    return t.requires_grad_() if requires_grad else t


def _pinned(t, requires_grad):
    if not _C._cuda.available():
        raise RuntimeError("tensor: pin_memory=True needs a CUDA device; pinned memory is not available here")
    return _C._cuda.pin(t).requires_grad_(requires_grad)


_ABSENT = {"requires_grad": False, "pin_memory": False}  # the other arguments are None where they are not given


def _of_mode(make, data, **given):
    """The newest function mode's answer to such a call, with the arguments that are not their defaults."""
    return asked(make, (), (data,), {k: v for k, v in given.items() if v is not _ABSENT.get(k)}, None)


def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """A new tensor with the numbers of `data`: a number, nested sequences, an array, or a tensor; always a copy.

    >>> import flambeau
    >>> flambeau.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    if _modes.function and has_torch_function(()):
        return _of_mode(tensor, data, dtype=dtype, device=device, requires_grad=requires_grad, pin_memory=pin_memory)
    if pin_memory:
        return _pinned(tensor(data, dtype=dtype, device=device), requires_grad)
    if _C.level_of(data):  # inside a transform: the same values under the same wrapper
        t = data.detach().clone() if dtype is None else data.detach().clone().to(dtype)
        return _finished(t, device, requires_grad)
    if _cuda_is_open() and _lies_on_cuda(data):
        t = as_tensor(data).clone()
        return _finished(t if dtype is None else t.to(dtype), device or t.device, requires_grad)
    t = told(_C.array(data.detach() if isinstance(data, _C.Tensor) else data, dtype, True))
    return _finished(t, device, requires_grad)


def told(t):
    """A tensor made of values of Python, or what the innermost dispatch mode puts in its place."""
    if _modes.dispatch:
        other = tell_mode("after_making", t)
        return t if other is None else other
    return t


def as_tensor(data, dtype=None, device=None):
    """`data` as a tensor, over the same memory where that is possible (a tensor, a storage, an array of that dtype).

    >>> import flambeau
    >>> t = flambeau.zeros(2)
    >>> flambeau.as_tensor(t) is t
    True
    """
    if _modes.function and has_torch_function(()):
        return _of_mode(as_tensor, data, dtype=dtype, device=device)
    if isinstance(data, _C.Tensor):
        return _C.placed(data if dtype is None else data.to(dtype=dtype), device)
    if hasattr(data, "_as_tensor"):  # a storage
        return _C.placed(data._as_tensor(dtype), device)
    if _cuda_is_open() and _lies_on_cuda(data):
        t = importlib.import_module("flambeau._tensor.dlpack").from_cuda_array(data)
        return _C.placed(t if dtype is None else t.to(dtype), device or t.device)
    return _finished(told(_C.array(data, dtype, False)), device, False)


def _lies_on_cuda(data):
    """Whether another library's array is in the memory of a CUDA device."""
    return not isinstance(data, (list, tuple, _C.Tensor)) and hasattr(data, "__cuda_array_interface__")


def from_numpy(ndarray):
    """A tensor over the memory of an array; what is written to one is seen in the other.

    >>> import flambeau, numpy
    >>> array = numpy.zeros(2)
    >>> flambeau.from_numpy(array).fill_(3)
    tensor([3., 3.], dtype=torch.float64)
    >>> array
    array([3., 3.])
    """
    return told(_C.from_numpy(ndarray))


def is_memory(x):
    """Whether x is a buffer without a shape and a dtype that a tensor could have."""
    if isinstance(x, (_C.Tensor, list, tuple, int, float, complex)) or hasattr(x, "__array_interface__"):
        return False
    if isinstance(x, (bytes, bytearray, memoryview)):
        return True
    try:
        memoryview(x)
    except (TypeError, BufferError):
        return False
    return not hasattr(x, "__dlpack__")


def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False):
    """Like as_tensor; copy=True always copies, copy=False never (ValueError where a copy is needed).

    Of bytes, an `array.array`, an `mmap` and other buffers that are no arrays, the memory itself, as `frombuffer` reads
    it in `dtype` (the default dtype where none is given).

    >>> import flambeau
    >>> flambeau.asarray(bytearray(b"abcd"), dtype=flambeau.uint8)
    tensor([ 97,  98,  99, 100], dtype=torch.uint8)
    """
    if _modes.function and has_torch_function(()):
        return _of_mode(asarray, obj, dtype=dtype, device=device, copy=copy, requires_grad=requires_grad)
    if is_memory(obj):
        dtype = _C.default_dtype() if dtype is None else dtype
        t = _C.placed(told(_C.frombuffer(obj, dtype=dtype)), device)
        return (t.clone() if copy else t).requires_grad_(requires_grad)
    if type(obj).__name__ == "PyCapsule":
        obj = _C.from_dlpack(obj)
    if copy and hasattr(obj, "_as_tensor"):
        obj = obj._as_tensor(dtype)
    if copy:
        return tensor(obj, dtype=dtype, device=device, requires_grad=requires_grad)
    t = as_tensor(obj, dtype=dtype, device=device)
    if copy is False and not _is_over(t, obj):
        raise ValueError(f"asarray: cannot make a tensor{'' if dtype is None else f' of {dtype}'} of a "
                         f"{type(obj).__name__} without a copy; use copy=None")
    return t.requires_grad_() if requires_grad else t


def _is_over(t, obj):
    """Whether the tensor lies in the memory of what it was made of, as far as that tells its address."""
    if isinstance(obj, _C.Tensor):
        return t is obj
    array = getattr(obj, "__array_interface__", None)
    if array is not None and t.numel():
        return t.data_ptr() == array["data"][0]
    return not isinstance(obj, (list, tuple, int, float, complex))


def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False):
    """A copy of `data` with this tensor's dtype and device unless others are given."""
    return tensor(data, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)


_C.Tensor.new_tensor = new_tensor
