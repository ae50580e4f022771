"""Segments on their way: the sender keeps one until the receiver has it, and the message names only where it is.

The receiver opens the sender's file in the system's own table, /proc/<pid>/fd, so no thread has to hand files out. What
has arrived is seen from the segment's counter: the sender looks after some more messages, and at once where much memory
is concerned, because the receiver then rings its bell (a pipe).
"""

import os
import signal
import threading
import time
from multiprocessing import connection, process, util

from . import shared_memory as memory
from .shared_memory import ON_WAY

_LARGE = 1 << 20  # bytes from which the receiver rings
_LOOKS = 16  # messages after which the sender looks at least
_LINGER = 5.0  # seconds that a process waits at its end for those it sent something

_pending = {}  # key -> segment: kept for receivers
_until_look = [_LOOKS]
_bell = []  # the pipe's two ends, once there is one
_waits = [True]  # whether this process's end waits for receivers


def send(segment):
    """Keeps a segment for whoever receives the message; returns what the message must say."""
    with memory.lock:
        segment.add(ON_WAY, 1)
        _pending[segment.key] = segment
        _until_look[0] -= 1
        if _until_look[0] <= 0:
            look()
        bell = _ringing() if segment.nbytes >= _LARGE else -1
    file = segment.file
    return os.getpid(), file.fd, file.key, segment.offset, segment.nbytes, file.end is not None, bell


def receive(pid, fd, key, offset, nbytes, common, bell):
    """The memory that a message names, as a uint8 tensor."""
    segment = memory.opened(pid, fd, key, offset, nbytes, common)
    found = segment.tensor()
    segment.add(ON_WAY, -1)
    if bell >= 0:
        _ring(pid, bell)
    return found


def look():
    """Lets go of what has been received."""
    with memory.lock:
        arrived = [key for key, segment in _pending.items() if segment.add(ON_WAY, 0) <= 0]
        for key in arrived:
            del _pending[key]
        _until_look[0] = max(_LOOKS, len(_pending))


# --- the bell --------------------------------------------------------------------------------------------------------

def _ringing():
    """The descriptor that receivers write to; a thread listens."""
    if not _bell:
        try:
            _bell.extend(os.pipe())
        except OSError as error:
            raise memory.explained(error, 0) from None
        threading.Thread(target=_listen, args=(_bell[0],), name="flambeau-shared-memory", daemon=True).start()
    return _bell[1]


def _listen(end):
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while True:
        os.read(end, 1 << 12)
        look()


def _ring(pid, bell):
    if pid == os.getpid():
        return look()
    try:
        end = os.open(f"/proc/{pid}/fd/{bell}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None  # the sender has ended, or may not be reached: it looks by itself
    try:
        os.write(end, b"x")
    except OSError:  # it is ringing already
        pass
    finally:
        os.close(end)
    return None


# --- forks and ends --------------------------------------------------------------------------------------------------

def _in_child():
    """What the parent sent is the parent's; the thread is not here."""
    _pending.clear()
    _waits[0] = True
    for end in _bell:
        os.close(end)
    _bell.clear()


os.register_at_fork(after_in_child=_in_child)


def _at_end(*_):
    """A process that ends first lets receivers open what it sent; the queues have sent all they hold by then (-5)."""
    util.Finalize(None, _linger, exitpriority=-90)
    util.Finalize(None, memory.release_mappings, exitpriority=-100)


def end_at_once():
    """This process's end waits for no receiver: the one that it works for has what it wanted when it says the end."""
    _waits[0] = False


def _linger():
    parent = process.parent_process()
    if parent is None or not _waits[0]:  # without a parent: children have ended by now
        return
    end, nap = time.monotonic() + _LINGER, 0.001
    look()
    while _pending and time.monotonic() < end and not connection.wait([parent.sentinel], nap):
        nap = min(2 * nap, 0.05)
        look()


_at_end()
util.register_after_fork(_at_end, _at_end)
