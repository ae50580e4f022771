"""Messages between the main process and a worker: whole or not at all, and never waiting where nobody reads.

A message is one packet of a socket pair. What is too long for a packet travels in memory of its own, of which only the
descriptor is sent, so no packet fills the socket.
"""

import mmap
import os
import pickle
import select
import socket
import weakref
from collections import deque

from ...._tensor.shared_memory import memory_file

_LONGEST = 16384
#: this process's ends of channels to its workers: in a child of this process they are closed, so that a worker whose
#: parent is gone reads the end of its channel
_ENDS = weakref.WeakSet()


def _close_in_child():
    for end in list(_ENDS):
        end.socket.close()
    _ENDS.clear()


os.register_at_fork(after_in_child=_close_in_child)


def channel():
    """(the main process's end, the socket of the worker's end)."""
    mine, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return MainEnd(mine), other


def _encoded(message, fds):
    """(packet, descriptors, the descriptor to close after sending or None)."""
    packet = pickle.dumps(message, 5)
    if len(packet) <= _LONGEST:
        return b"p" + packet, fds, None
    spill = memory_file(len(packet))
    with mmap.mmap(spill, len(packet)) as memory:
        memory[:] = packet
    return b"f%d" % len(packet), [*fds, spill], spill


def _decoded(packet, fds):
    if packet[:1] == b"p":
        return pickle.loads(memoryview(packet)[1:]), fds
    spill = fds.pop()
    with mmap.mmap(spill, int(packet[1:])) as memory:
        message = pickle.loads(memory)
    os.close(spill)
    return message, fds


class WorkerEnd:
    """A worker's end: it waits until a message comes or can be sent."""

    def __init__(self, end):
        self.socket = end

    def send(self, message, fds=()):
        """BrokenPipeError where the main process is gone."""
        packet, fds, spill = _encoded(message, list(fds))
        try:
            socket.send_fds(self.socket, [packet], fds)
        finally:
            if spill is not None:
                os.close(spill)

    def receive(self):
        """(message, descriptors that came with it), or None at the end of the channel."""
        packet, fds, *_ = socket.recv_fds(self.socket, _LONGEST + 64, 4)
        return _decoded(packet, fds) if packet else None


class MainEnd:
    """The main process's end: it never waits. Messages that do not fit yet are sent later, in their order."""

    def __init__(self, end):
        self.socket = end
        end.setblocking(False)
        self._waiting = deque()
        _ENDS.add(self)

    def fileno(self):
        """The descriptor to poll."""
        return self.socket.fileno()

    def events(self):
        """What to poll for."""
        return select.POLLIN | (select.POLLOUT if self._waiting else 0)

    def send(self, message, fds=()):
        """Sends now or later. A worker that is gone is noticed where its messages are read."""
        self._waiting.append(_encoded(message, list(fds)))
        self.flush()

    def flush(self):
        """Sends what waits, as far as it goes."""
        while self._waiting:
            packet, fds, spill = self._waiting[0]
            try:
                socket.send_fds(self.socket, [packet], fds)
            except BlockingIOError:
                return
            except OSError:
                pass
            self._waiting.popleft()
            if spill is not None:
                os.close(spill)

    def receive(self):
        """(message, descriptors) if one is there, None if not; EOFError when the worker is gone."""
        try:
            packet, fds, *_ = socket.recv_fds(self.socket, _LONGEST + 64, 4)
        except BlockingIOError:
            return None
        except ConnectionResetError:  # the worker left messages unread; what it sent before is still there
            return self.receive()
        except OSError:
            packet = b""
        if not packet:
            raise EOFError
        return _decoded(packet, fds)

    def close(self):
        """The worker reads the end of the channel."""
        for *_, spill in self._waiting:
            if spill is not None:
                os.close(spill)
        self._waiting.clear()
        self.socket.close()
