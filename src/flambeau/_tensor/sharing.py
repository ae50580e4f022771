"""How tensors and storages are taken apart for another process: memory stays where it is, its place is sent."""

import gc
import sys
from inspect import CO_OPTIMIZED
from multiprocessing import reduction

from .. import _C
from . import handover, storage
from . import shared_memory as memory
from .copying import SharedBytes

_AT_ONCE = 1 << 14  # containers looked into at a time

# --- into shared memory ----------------------------------------------------------------------------------------------

def share(t):
    """Moves the memory a tensor lies in to where other processes can use it; returns the tensor. That of a CUDA device
    stays where it is."""
    if t.is_cuda:
        return t
    if t.is_meta:
        raise NotImplementedError("share_memory_: a tensor on the meta device has no memory to share; give it some "
                                  "first: module.to_empty(device='cpu'), or empty_like(x, device='cpu')")
    if memory.of(t) is None:
        _move(_users(t) or [t])
    return t


def _move(tensors):
    """Gives tensors over the same memory a copy of it, in shared memory."""
    first = tensors[0].detach()
    whole = memory.create(first._storage_nbytes(), _C.storage_bytes(first)).tensor()
    for t in tensors:
        elements = _C.storage_view(whole, t.dtype, 0, (whole.numel() // t.itemsize,), (1,))
        t._set_storage(elements, t.storage_offset(), tuple(t.shape), tuple(t.stride()))


def _users(t):
    """All tensors over the memory of `t`, or None where some of them are not found."""
    n, key = _C.storage_users(t), _C.storage_id(t)
    found = {id(t): t}
    base = t._base
    if base is not None and _C.storage_id(base) == key:
        found[id(base)] = base
    for x in _referents() if len(found) < n else ():
        if _C.storage_id(x) == key:
            found[id(x)] = x
            if len(found) == n:
                break
    return list(found.values()) if len(found) == n else None


def _referents():
    """Tensors that the running functions and containers refer to, the youngest containers first."""
    for frame in sys._current_frames().values():
        while frame is not None:
            yield from _locals(frame)
            frame = frame.f_back
    for objects in map(gc.get_objects, range(3)):
        for k in range(0, len(objects), _AT_ONCE):
            yield from filter(_is_candidate, gc.get_referents(*objects[k:k + _AT_ONCE]))


def _locals(frame):
    names = frame.f_locals
    found = list(filter(_is_candidate, names.values()))
    # Python keeps this copy of a function's variables with the frame, where it would keep old values alive: it is
    # emptied, unless the program itself holds it (`d = locals()`).
    if frame.f_code.co_flags & CO_OPTIMIZED and type(names) is dict and sys.getrefcount(names) <= 3:
        names.clear()
    return found


def _is_candidate(x):
    return issubclass(type(x), _C.Tensor) and not x.is_meta  # another object may answer to __class__ as it likes


# --- tensors ---------------------------------------------------------------------------------------------------------

def reduce_tensor(t):
    """How a queue or pipe takes a tensor apart."""
    if t.requires_grad and not t.is_leaf:
        raise RuntimeError(f"this tensor of shape {list(t.shape)} comes from {t.grad_fn.name()} and requires grad; "
                           "it cannot be sent to another process, because its graph stays in this one; send x.detach()")
    if t.is_meta:
        return t.__reduce_ex__(2)
    if t.is_conj() or t.is_neg():  # the values: who gets them has another view of the memory, or none
        plain = share(t.detach().clone())
    else:
        plain = t if t.is_cuda or memory.of(t) is not None else _shared(t)
    dtype = str(t.dtype).rpartition(".")[2]
    layout = plain.storage_offset(), tuple(plain.shape), tuple(plain.stride())
    return _rebuild, (type(t), *_sent(plain), dtype, layout, t.requires_grad, dict(t.__dict__))


def _sent(t):
    """(how the receiver finds the memory of a tensor, what that is told); it is kept until then."""
    if t.is_cuda:
        way = _C._cuda.ipc()
        return way.receive, way.send(t)
    return handover.receive, handover.send(memory.of(share(t)))


def _shared(t):
    """The tensor in shared memory: itself with all others over its memory; a copy where some are not found."""
    users = _users(t)
    if users is None and (t._is_view() or t._storage_nbytes() != t.nbytes):
        return share(t.detach().clone())
    _move(users or [t])
    return t


def _rebuild(kind, receive, place, dtype, layout, requires_grad, state):
    t = _C.storage_view(receive(*place), getattr(_C, dtype), *layout)
    if kind is not _C.Tensor:
        t = _C.Tensor._make_subclass(kind, t, requires_grad)
    elif requires_grad:
        t.requires_grad_()
    t.__dict__.update(state)
    return t


# --- storages --------------------------------------------------------------------------------------------------------

def reduce_storage(s):
    """How a queue or pipe takes a storage apart."""
    return _rebuild_storage, (type(s), s.dtype, *_sent(s._owner))


def _rebuild_storage(kind, dtype, receive, place):
    whole = receive(*place)
    return storage._over(kind, whole if dtype is _C.uint8 else whole.view(dtype))


def _reduce_bytes(shared):
    """The memory of a tensor subclass, which pickle takes apart by itself."""
    return _rebuild_bytes, _sent(shared.memory)


def _rebuild_bytes(receive, place):
    return SharedBytes(receive(*place))


def register(*kinds):
    """Makes Python's multiprocessing send tensors of these types this way."""
    for kind in kinds:
        reduction.ForkingPickler.register(kind, reduce_tensor)


register(_C.Tensor)
for _kind in (storage.UntypedStorage, storage.TypedStorage):
    reduction.ForkingPickler.register(_kind, reduce_storage)
reduction.ForkingPickler.register(SharedBytes, _reduce_bytes)
