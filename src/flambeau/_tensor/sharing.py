"""Tensors in shared memory: how the memory is made, and how a tensor is passed between processes."""

import fcntl
import mmap
import os
import tempfile
from multiprocessing import reduction

from .. import _C
from .._shown import shown
from .memory import SHARED

_STRATEGIES = ("file_descriptor", "file_system")
_strategy = ["file_descriptor"]
_COUNTER = 8  # bytes


class SharedMap(mmap.mmap):
    """Mapped memory that knows its file: an open descriptor and, of the strategy "file_system", a name.

    Behind the memory a named file counts who uses it: every mapping, and every message on its way. The last removes it.
    """

    def __new__(cls, fd, nbytes, name=None):
        made = super().__new__(cls, fd, _padded(nbytes) + _COUNTER)
        made.fd, made.name, made.pid = fd, name, os.getpid()
        return made

    def __init__(self, *args, **kwargs):
        """Everything is done above."""

    def count(self, change):
        """Adds to the number of users; returns it."""
        fcntl.lockf(self.fd, fcntl.LOCK_EX)
        users = int.from_bytes(self[-_COUNTER:], "little") + change
        self[-_COUNTER:] = users.to_bytes(_COUNTER, "little")
        fcntl.lockf(self.fd, fcntl.LOCK_UN)
        return users

    def __del__(self):
        if self.name is not None and self.pid == os.getpid() and self.count(-1) == 0:
            os.unlink(self.name)
        os.close(self.fd)


def _padded(nbytes):
    return -(-max(nbytes, 1) // 64) * 64


def _create(nbytes):
    name = None
    if _strategy[0] == "file_descriptor":
        fd = os.memfd_create("flambeau", os.MFD_CLOEXEC) if hasattr(os, "memfd_create") else _unnamed_file()
    else:
        place = "/dev/shm" if os.path.isdir("/dev/shm") else None
        fd, name = tempfile.mkstemp(prefix=f"flambeau_{os.getpid()}_", dir=place)
    os.ftruncate(fd, _padded(nbytes) + _COUNTER)
    made = SharedMap(fd, nbytes, name)
    if name is not None:
        made.count(1)
    return made


def _unnamed_file():
    fd, name = tempfile.mkstemp(prefix="flambeau_")
    os.unlink(name)
    return fd


def _adopted(shared, nbytes):
    """The mapping as a uint8 tensor, remembered by its address."""
    memory = _C.frombuffer(memoryview(shared)[:max(nbytes, 1)], dtype=_C.uint8)[:nbytes]
    SHARED[_C.storage_id(memory)] = shared
    return memory


def share(t):
    """Moves a tensor's memory into a shared mapping; returns the tensor."""
    if t.is_meta:
        raise NotImplementedError("share_memory_: a tensor on the meta device has no memory")
    if t.is_shared():
        return t
    nbytes = t._storage_nbytes()
    memory = _adopted(_create(nbytes), nbytes)
    memory.copy_(_C.storage_bytes(t.detach()))
    whole = _C.storage_view(memory, t.dtype, 0, (nbytes // t.itemsize,), (1,))
    return t._set_storage(whole, t.storage_offset(), tuple(t.shape), tuple(t.stride()))


# --- the way between processes ------------------------------------------------------------------------------------

def reduce_tensor(t):
    """How a queue or pipe takes a tensor apart: the memory stays where it is, only its place is sent."""
    if t.requires_grad and not t.is_leaf:
        raise RuntimeError("a non-leaf tensor that requires grad cannot be sent to another process, since its graph "
                           "stays in this one; send x.detach()")
    if t.is_meta:
        return t.__reduce_ex__(2)
    plain = t.detach().as_subclass(_C.Tensor)
    if not plain.is_shared():
        if t._is_view() or plain._storage_nbytes() != t.nbytes:
            plain = plain.clone()  # other tensors keep their memory
        share(plain)
        if not t._is_view() and plain.shape == t.shape and t._storage_nbytes() == plain._storage_nbytes():
            t._set_storage(plain, plain.storage_offset(), tuple(plain.shape), tuple(plain.stride()))
    shared = SHARED[_C.storage_id(plain)]
    if shared.name is not None:
        shared.count(1)  # of the message: whoever rebuilds the tensor takes it over
        place = "name", shared.name
    else:
        place = "fd", reduction.DupFd(shared.fd)
    layout = plain._storage_nbytes(), plain.storage_offset(), tuple(plain.shape), tuple(plain.stride())
    return _rebuild, (type(t), place, str(t.dtype).rpartition(".")[2], layout, t.requires_grad, dict(t.__dict__))


def _rebuild(kind, place, dtype, layout, requires_grad, state):
    nbytes, offset, shape, strides = layout
    how, where = place
    fd = os.open(where, os.O_RDWR) if how == "name" else where.detach()
    memory = _adopted(SharedMap(fd, nbytes, where if how == "name" else None), nbytes)
    t = _C.storage_view(memory, getattr(_C, dtype), offset, shape, strides)
    if kind is not _C.Tensor:
        t = _C.Tensor._make_subclass(kind, t, requires_grad)
    elif requires_grad:
        t.requires_grad_()
    t.__dict__.update(state)
    return t


def register(*kinds):
    """Tensors of these types travel by shared memory from now on."""
    for kind in kinds:
        reduction.ForkingPickler.register(kind, reduce_tensor)


def get_all_sharing_strategies():
    """The ways memory is handed over: by an open file descriptor, or by a name in the file system.

    >>> import flambeau
    >>> sorted(flambeau.multiprocessing.get_all_sharing_strategies())
    ['file_descriptor', 'file_system']
    """
    return set(_STRATEGIES)


def get_sharing_strategy():
    """The one in use."""
    return _strategy[0]


def set_sharing_strategy(new_strategy):
    """Chooses one for memory shared from now on."""
    if new_strategy not in _STRATEGIES:
        raise ValueError(f"set_sharing_strategy: expected one of {_STRATEGIES}, got {shown(new_strategy)}")
    _strategy[0] = new_strategy


