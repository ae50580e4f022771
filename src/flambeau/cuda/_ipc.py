"""Memory of CUDA devices for other processes: the driver names it, the sender keeps it until the receiver lets it go.

A message says which segment the memory is part of, where in it the storage lies, which mark in the sender's work the
receiver's work has to wait for, and a byte that both processes see: what has become of the message.
"""

import atexit
import contextlib
import os
import threading
import warnings
import weakref

from .. import _C
from .._tensor import handover
from .._tensor import shared_memory as memory

_cuda = _C._cuda
_SENT, _TAKEN, _DROPPED = range(3)
_MESSAGES = 4096  # that share a page

_lock = threading.RLock()
_pages = []
_sent = {}  # (page's number, message) -> (tensor, event or 0, device): kept for the receiver
_opened = weakref.WeakValueDictionary()  # handle -> _Opened


class _Page:
    """A byte for each of some messages, in memory that their receivers see too."""

    def __init__(self):
        self.segment = memory.create(_MESSAGES)
        self.states = self.segment.tensor()
        self.free = list(range(_MESSAGES))


def _place():
    """(the number of a page, a message on it that is free)."""
    for number, page in enumerate(_pages):
        if page.free:
            return number, page.free.pop()
    _pages.append(_Page())
    return len(_pages) - 1, _pages[-1].free.pop()


def send(t):
    """Keeps the memory of a tensor for whoever receives the message; returns what the message must say."""
    with _lock:
        collect()
        device = t.device.index
        handle, offset, nbytes = _cuda.ipc_memory(t)
        event = _cuda.ipc_new_event(device)
        _cuda.record(event, _cuda.current_stream(device), device)
        mark = _cuda.ipc_event(device, event)
        number, k = _place()
        page = _pages[number]
        page.states[k] = _SENT
        _sent[number, k] = t.detach(), event, device
        return (os.getpid(), _cuda.properties(device)["uuid"], handle, offset, nbytes, mark,
                handover.send(page.segment), number, k)


def receive(pid, uuid, handle, offset, nbytes, mark, place, number, k):
    """The memory that a message names, as a uint8 tensor."""
    states = handover.receive(*place)
    if pid == os.getpid():
        with _lock:
            t = _sent[number, k][0]
            states[k] = _DROPPED
            return _C.storage_bytes(t)
    device = _device_of(uuid)
    opened = _opened.get((device, handle)) or _Opened(device, handle)
    received = _Received(opened, states, k)
    event = _cuda.ipc_open_event(device, mark)
    try:
        _cuda.stream_wait(device, _cuda.current_stream(device), event)
    finally:
        _cuda.drop_event(device, event, True)
    states[k] = _TAKEN
    return _cuda.over_address(opened.address + offset, (nbytes,), (1,), _C.uint8, device, received)


def _device_of(uuid):
    """The device that another process knows, perhaps by another number."""
    for k in range(_cuda.device_count()):
        if _cuda.properties(k)["uuid"] == uuid:
            return k
    raise RuntimeError("a tensor cannot be received: this process does not see the CUDA device that it lies on; let "
                       "CUDA_VISIBLE_DEVICES name it here too")


class _Opened:
    """A segment of another process, for as long as anything in it is used here."""

    def __init__(self, device, handle):
        self.device, self.address = device, None
        self.address = _cuda.ipc_open(device, handle)
        _opened[device, handle] = self

    def __del__(self, close=_cuda.ipc_close):
        if self.address is not None:
            with contextlib.suppress(RuntimeError):  # the driver has ended
                close(self.device, self.address)


class _Received:
    """What a tensor over another process's memory holds: at its end the sender may use the memory for other things."""

    def __init__(self, opened, states, k):
        self.opened, self.states, self.k = opened, states, k

    def __del__(self, synchronize=_cuda.synchronize, dropped=_DROPPED):
        with contextlib.suppress(RuntimeError):  # the driver has ended, and its work
            synchronize(self.opened.device)
        self.opened = None
        self.states[self.k] = dropped


def collect():
    """Lets go of what receivers have let go of."""
    with _lock:
        for (number, k), (t, event, device) in list(_sent.items()):
            page = _pages[number]
            state = int(page.states[k])
            if state != _SENT and event:
                _cuda.drop_event(device, event, True)
                _sent[number, k] = t, 0, device
            if state == _DROPPED:
                del _sent[number, k]
                page.free.append(k)


@atexit.register
def _at_end():
    if _sent and not _cuda.in_bad_fork():
        collect()
        if _sent:
            warnings.warn(f"this process ends while others use {len(_sent)} CUDA tensors that it has sent, or have yet "
                          "to receive them: their memory ends with it; let it wait until they have been let go of",
                          stacklevel=1)
