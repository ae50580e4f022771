"""Tensor methods about memory: storages, resizing, pinning, and calling a Python function on every element."""

import functools
import importlib
from numbers import Number

from .. import _C
from .._C import Tensor
from .._shown import shown
from .creation import tensor
from .methods import method


@functools.cache
def _storages():
    return importlib.import_module("flambeau._tensor.storage")  # loaded when a storage is first asked for


@method
def untyped_storage(self):
    """The memory this tensor is a view of, by bytes."""
    return _storages().UntypedStorage(self)


@method
def storage(self):
    """The memory this tensor is a view of, by elements."""
    return _storages().TypedStorage(self)


@method
def storage_type(self):
    """The class of `storage()`, as FloatStorage."""
    return _storages().TYPES[self.type().removeprefix("torch.").replace("Tensor", "Storage")]


@method
def share_memory_(self):
    """Moves the memory this tensor lies in to where other processes can use it; views of it go along.

    >>> import flambeau
    >>> flambeau.ones(2).share_memory_().is_shared()
    True
    """
    return importlib.import_module("flambeau._tensor.sharing").share(self)


@method
def is_shared(self):
    """Whether other processes can use this tensor's memory; of a CUDA device's, which share_memory_ leaves as it is:
    yes."""
    return self.is_cuda or _C.shared_memory_of(self) is not None


@method
def set_(self, source=None, storage_offset=0, size=None, stride=None):
    """Makes this tensor a view of the memory of `source`, a tensor or a storage; of none without it.

    Memory that is too small for `size` grows, as by `resize_`.
    """
    if self.requires_grad and _C.is_grad_enabled():
        raise RuntimeError("set_: cannot change the memory of a tensor that requires grad; write inside `with "
                           "flambeau.no_grad():`")
    if source is None:
        source = tensor([], dtype=self.dtype)
    if not isinstance(source, Tensor):
        source = source._as_tensor(self.dtype)
    elif size is None:
        storage_offset, size, stride = source.storage_offset(), source.shape, source.stride()
    if source.dtype is not self.dtype:
        raise RuntimeError(f"set_: expected a source of dtype {self.dtype}, got {source.dtype}")
    if source.is_conj() or source.is_neg() or self.is_conj() or self.is_neg():
        raise NotImplementedError("set_: the memory of one of the two tensors holds the conjugate or the negative of "
                                  "its values; call resolve_conj() and resolve_neg() first")
    size = tuple(source.shape) if size is None else tuple(size)
    if stride is None:
        stride, step = [], 1
        for n in reversed(size):
            stride.insert(0, step)
            step *= max(n, 1)
    reach = 0 if 0 in size else 1 + storage_offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    anew = (size, tuple(stride)) != (self.shape, self.stride())  # a tensor that has this size asks for no more memory
    if anew and reach * self.itemsize > source._storage_nbytes() and not source.is_meta:
        storage = source.untyped_storage()
        storage.resize_(reach * self.itemsize)
        source = storage._as_tensor(self.dtype)
    self._set_storage(source, storage_offset, size, tuple(stride))
    return self


@method
def pin_memory(self, device=None):
    """A copy in memory that CUDA devices copy from directly (page-locked); itself where it is there already.

    Copies between such memory and a device may be `non_blocking`. RuntimeError where there is no such device.
    """
    if not _C._cuda.available():
        raise RuntimeError("pin_memory: there is no accelerator to pin memory for; leave the call out")
    if device is not None and _C.device(device).type != "cuda":
        raise RuntimeError(f"pin_memory: memory is pinned for CUDA devices, not for {shown(device)}")
    return self if _C._cuda.is_pinned(self) else _C._cuda.pin(self)


@method
def is_pinned(self, device=None):
    """Whether CUDA devices can copy from this memory directly; of other devices: no."""
    if device is not None and _C.device(device).type != "cuda":
        return False
    return _C._cuda.is_pinned(self)


@method
def record_stream(self, stream):
    """Says that work of another stream uses this tensor: its memory is not given out again before that is done.

    Memory belongs to the stream it was made on; only there is the order of work certain.
    """
    if not hasattr(stream, "cuda_stream"):
        raise NotImplementedError("record_stream: only CUDA devices have streams; leave the call out on the CPU")
    _C._cuda.record_stream(self, stream.cuda_stream)


@method
def dim_order(self, ambiguity_check=False):
    """The dimensions from the largest step in memory to the smallest.

    ambiguity_check: True raises where other orders describe the memory as well (a dimension of size 1); a list of
    memory formats, where the tensor has more than one of them, or none.

    >>> import flambeau
    >>> flambeau.ones(2, 3).t().dim_order()
    (1, 0)
    """
    if self.layout is not _C.strided:
        raise AttributeError(f"dim_order: a tensor of layout {str(self.layout).removeprefix('torch.')} has no memory "
                             "in order; use x.to_dense()")
    if ambiguity_check is True:
        found = 2 if any(n == 1 for n in self.shape) or len(set(self.stride())) < self.ndim else 1
    elif ambiguity_check is False:
        found = 1
    elif isinstance(ambiguity_check, list) and all(isinstance(f, _C.memory_format) for f in ambiguity_check):
        found = sum(self.is_contiguous(memory_format=f) for f in ambiguity_check)
    else:
        raise TypeError("dim_order: ambiguity_check is a bool or a list of memory formats, got "
                        f"{shown(ambiguity_check)}")
    if found != 1:
        raise RuntimeError(f"dim_order: the order is not unique for shape {list(self.shape)} with strides "
                           f"{list(self.stride())}")
    return tuple(sorted(range(self.ndim), key=lambda d: -self.stride(d)))


@method
def apply_(self, callable):
    """Replaces every element by `callable(element)`, in Python: slow."""
    return _replace("apply_", self, callable)


@method
def map_(self, tensor, callable):
    """Replaces every element by `callable(element, element of tensor)`, in Python: slow."""
    return _replace("map_", self, callable, tensor)


@method
def map2_(self, x, y, callable):
    """Replaces every element by `callable(element, element of x, element of y)`, in Python: slow."""
    return _replace("map2_", self, callable, x, y)


def _replace(name, t, function, *others):
    for other in others:
        if not isinstance(other, Tensor) or other.dtype is not t.dtype:
            raise TypeError(f"{name}: expected tensors of {t.dtype}, as this one is, got "
                            f"{other.dtype if isinstance(other, Tensor) else shown(other)}")
    sources = (t, *(other.expand_as(t) for other in others))
    if any(source.requires_grad for source in sources):
        raise RuntimeError(f"{name} changes values behind autograd's back: a tensor that requires grad is refused; "
                           "call x.detach() first")
    columns = [source.reshape(-1).tolist() for source in sources]
    values = [function(*row) for row in zip(*columns)]
    wrong = next((value for value in values if not isinstance(value, (Number, Tensor))), None)
    if wrong is not None:
        raise TypeError(f"{name}: the function must return numbers, got {shown(wrong)}")
    return t.copy_(tensor(values, dtype=t.dtype).reshape(t.shape)) if values else t
