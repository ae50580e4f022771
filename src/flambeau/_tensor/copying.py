"""Copying and pickling of tensors: memory shared by several tensors is copied once and shared again."""

from copy import deepcopy
from weakref import WeakValueDictionary

from .. import _C
from .._C import Tensor
from ..ops.kinds import OPS
from .overriding import takes_dispatch
from .wrapped import copied


class SharedBytes:
    """The memory of one storage on its way through pickle, where it is met once per tensor that uses it."""

    _live = WeakValueDictionary()  # storage -> its SharedBytes, while a pickler remembers it

    def __init__(self, memory):
        self.memory = memory

    @classmethod
    def of(cls, t):
        """The one object for the storage of `t`."""
        key = _C.storage_id(t)
        found = cls._live.get(key)
        if found is None or found.memory.numel() != t._storage_nbytes():
            found = cls._live[key] = cls(_C.storage_bytes(t.detach()))
        return found

    def __reduce__(self):
        data = bytes(memoryview(self.memory.cpu())) if self.memory.numel() else b""
        return _shared_bytes, (data, str(self.memory.device)) if self.memory.is_cuda else (data,)


def _shared_bytes(data, device="cpu"):
    memory = OPS["empty"](len(data), dtype=_C.uint8)
    if data:
        memoryview(memory)[:] = data
    return SharedBytes(memory.to(device))


def _rebuild(kind, shared, dtype, offset, shape, strides, requires_grad, lazy=None):
    t = _C.storage_view(shared.memory, getattr(_C, dtype), offset, shape, strides)
    return _finished(kind, as_lazy(t, *lazy) if lazy else t, requires_grad)


def _rebuild_meta(kind, dtype, shape, strides, requires_grad):
    t = OPS["empty_strided"](shape, strides, dtype=getattr(_C, dtype), device="meta")
    return _finished(kind, t, requires_grad)


def as_lazy(t, conj, neg):
    """The same memory as that of a conjugate, a negative, or both; t itself as that of neither."""
    if conj:
        t = t.conj().detach()
    return t._neg_view().detach() if neg else t


def _finished(kind, t, requires_grad):
    if kind is not Tensor:
        return Tensor._make_subclass(kind, t, requires_grad)
    return t.requires_grad_() if requires_grad else t


def reduce_tensor(self):
    """How `pickle` and `copy.copy` take a tensor apart."""
    dtype = str(self.dtype).rpartition(".")[2]
    shape, strides = tuple(self.shape), tuple(self.stride())
    if self.is_meta:
        call = _rebuild_meta, (type(self), dtype, shape, strides, self.requires_grad)
    else:
        shared = SharedBytes.of(self)
        lazy = ((self.is_conj(), self.is_neg()),) if self.is_conj() or self.is_neg() else ()
        call = _rebuild, (type(self), shared, dtype, self.storage_offset(), shape, strides, self.requires_grad, *lazy)
    return (*call, dict(self.__dict__)) if self.__dict__ else call


def deepcopy_tensor(self, memo):
    """A tensor with memory of its own (shared with the copies of those it shared with), with its gradient."""
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf:
        raise RuntimeError(f"deepcopy: this tensor of shape {list(self.shape)} was computed by "
                           f"{self.grad_fn.name()} and has a history; only leaves are copied together with it. "
                           "Copy its values with x.detach().clone()")
    if takes_dispatch(type(self)) and not self._storage_ptr():
        return copied(self, memo, self.__dict__)
    shape, strides = tuple(self.shape), tuple(self.stride())
    if self.is_meta:
        t = OPS["empty_strided"](shape, strides, dtype=self.dtype, device="meta")
    else:
        key = ("storage", _C.storage_id(self))
        if key not in memo:
            memo[key] = _C.storage_bytes(self.detach()).clone()
        t = as_lazy(_C.storage_view(memo[key], self.dtype, self.storage_offset(), shape, strides),
                    self.is_conj(), self.is_neg())
    result = memo[id(self)] = _finished(type(self), t, self.requires_grad)
    if self.grad is not None:
        result.grad = deepcopy_tensor(self.grad, memo)
    if self.__dict__:
        result.__dict__.update({name: deepcopy(value, memo) for name, value in self.__dict__.items()})
    return result
