"""Memory that processes share: what it is made of, and when it goes back to the system.

A segment is a range of an anonymous file (memfd), so the kernel frees it with the last process that uses it, however
that process ends: nothing has a name, and nothing is left in /dev/shm. The strategy says how many files there are:
"file_descriptor" makes one per segment; "file_system" one per process, whose ranges are given back one by one.
"""

import errno
import os
import threading
from weakref import WeakValueDictionary

from .. import _C
from .._shown import shown

ON_WAY, MAPPED = range(2)  # the counters of native/bind/shared_memory.cpp
STRATEGIES = ("file_descriptor", "file_system")
_PAGE = os.sysconf("SC_PAGESIZE")
_WRITTEN = 1 << 16  # bytes from which writing to the file is cheaper than copying into fresh pages
_LOOK_AHEAD = 1 << 26  # bytes from which the system is asked first whether it has so many

_strategy = ["file_descriptor"]
_files, _segments = WeakValueDictionary(), WeakValueDictionary()  # what this process has open, by key
_common = []  # the file of this process whose ranges are segments, when there is one
lock = threading.RLock()  # for looking up and adding; taken anew in a forked child


def memory_file(nbytes=0):
    """Descriptor of a file without a name, of so many bytes that the system has reserved.

    It is gone when nobody has it open or mapped any more. OSError where memory is missing: here, and not as a bus error
    when it is touched.
    """
    fd = os.memfd_create("flambeau", os.MFD_CLOEXEC)
    if nbytes:
        try:
            os.posix_fallocate(fd, 0, nbytes)
        except OSError:
            os.close(fd)
            raise
    return fd


class SharedFile:
    """An open file and the number (`key`) by which all processes know it."""

    __slots__ = ("__weakref__", "end", "fd", "key")

    def __init__(self, fd):
        self.fd, self.key, self.end = fd, os.fstat(fd).st_ino, None
        _files[self.key] = self

    def __del__(self, close=os.close):  # as defaults, names live until the interpreter has ended
        close(self.fd)


class Segment(_C.SharedMemory):
    """A range of a file, mapped: `tensor()` is its memory."""

    __slots__ = ("counted", "file", "offset")

    def __new__(cls, file, nbytes, offset=0):
        try:
            made = super().__new__(cls, file.fd, nbytes, offset)
        except OSError as error:
            raise explained(error, nbytes) from None
        made.file, made.offset, made.counted = file, offset, False
        return made

    @property
    def key(self):
        """By this all processes know it."""
        return self.file.key, self.offset

    def enter(self):
        """Counts this mapping and makes it findable."""
        if self.file.end is not None:
            self.add(MAPPED, 1)
            self.counted = True
        _segments[self.key] = self
        return self

    def __del__(self, counter=MAPPED):
        if self.counted and self.add(counter, -1) == 0:
            self.remove()


def explained(error, nbytes):
    """What an error of the system means for somebody who shares tensors."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        text = ("too many open files: with the sharing strategy 'file_descriptor' every shared tensor keeps one; "
                "call flambeau.multiprocessing.set_sharing_strategy('file_system') in each process that sends tensors, "
                "or raise the limit (ulimit -n)")
    elif error.errno in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG, errno.EDQUOT):
        text = (f"there is no shared memory for {nbytes} bytes more ({os.strerror(error.errno)}): send smaller tensors "
                "or fewer at a time (fewer workers, a smaller prefetch_factor or queue), or raise the limit: memory "
                "of the container, ulimit -f for the size of files, vm.max_map_count for the number of mappings")
    else:
        return error
    return RuntimeError(text)


def _available():
    """Bytes the system can still give, as far as it says."""
    try:
        with open("/proc/meminfo") as file:
            fields = dict(line.split(":") for line in file)
        return 1024 * int(fields["MemAvailable"].split()[0])
    except (OSError, KeyError):
        return None


def _check_available(nbytes):
    available = _available()
    if available is not None and nbytes > available:
        raise explained(OSError(errno.ENOMEM, ""), f"{nbytes} (the system has {available} left)")


def _file_for(room):
    """A file and the offset in it where `room` bytes may be put."""
    if _strategy[0] == "file_descriptor":
        return SharedFile(memory_file()), 0
    with lock:
        if not _common:
            _common.append(SharedFile(memory_file()))
            _common[0].end = 0
        file = _common[0]
        offset, file.end = file.end, file.end + room
    return file, offset


def _fill(fd, offset, room, source):
    """Takes memory from the system: it refuses here, where touching a page it does not have would be fatal."""
    done = 0
    if source is not None and source.numel() >= _WRITTEN:
        view = memoryview(source)
        while done < len(view):
            done += os.pwrite(fd, view[done:], offset + done)
    start = done // _PAGE * _PAGE
    os.posix_fallocate(fd, offset + start, room - start)
    return done > 0


def create(nbytes, source=None):
    """A segment of so many bytes; with the contents of `source`, a uint8 tensor of that size."""
    room = -(-_C.shared_room(nbytes) // _PAGE) * _PAGE
    if nbytes >= _LOOK_AHEAD:
        _check_available(nbytes)
    try:
        file, offset = _file_for(room)
    except OSError as error:
        raise explained(error, nbytes) from None
    segment = Segment(file, nbytes, offset)
    try:
        written = _fill(file.fd, offset, room, source)
    except OSError as error:
        if file.end is not None:
            segment.remove()
        if error.errno == errno.EFBIG and offset > 0:  # the file's end has reached the limit: begin another
            _common.clear()
            return create(nbytes, source)
        raise explained(error, nbytes) from None
    segment.enter()
    if source is not None and not written:
        segment.tensor().copy_(source)
    return segment


def opened(pid, fd, key, offset, nbytes, common):
    """The segment that another process has open under these numbers; the one of this process, if it has it too."""
    with lock:
        segment = _segments.get((key, offset))
        if segment is None:
            file = _files.get(key) or _file_of(pid, fd, key, nbytes)
            if common and file.end is None:
                file.end = 0  # others use ranges of it
            segment = Segment(file, nbytes, offset).enter()
        return segment


def _file_of(pid, fd, key, nbytes):
    try:
        own = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        raise _gone(pid) from None
    except PermissionError:
        raise RuntimeError(f"a tensor cannot be received: this process may not open files of process {pid}, which sent "
                           "it; processes that share tensors must belong to one user") from None
    except OSError as error:
        raise explained(error, nbytes) from None
    file = SharedFile(own)
    if file.key != key:
        raise _gone(pid)
    return file


def _gone(pid):
    return RuntimeError(f"a tensor cannot be received: process {pid}, which sent it, has ended and its memory with it; "
                        "a process must stay alive until what it sent has been received (let it wait for an Event that "
                        "the receiver sets)")


def of(t):
    """The segment a tensor lies in, or None."""
    return _C.shared_memory_of(t)


# --- forks -----------------------------------------------------------------------------------------------------------

def _before_fork():
    for segment in list(_segments.values()):
        if segment.counted:
            segment.add(MAPPED, 1)  # the child's


def _in_child():
    global lock
    lock = threading.RLock()
    _common.clear()  # the parent goes on with it


os.register_at_fork(before=_before_fork, after_in_child=_in_child)


def release_mappings():
    """For the end of a process that runs no destructors: its ranges are no longer counted."""
    for segment in list(_segments.values()):
        if segment.counted:
            segment.counted = False
            if segment.add(MAPPED, -1) == 0:
                segment.remove()


# --- strategies ------------------------------------------------------------------------------------------------------

def get_all_sharing_strategies():
    """The ways memory is held: one file per tensor (file_descriptor), or one per process (file_system).

    >>> import flambeau
    >>> sorted(flambeau.multiprocessing.get_all_sharing_strategies())
    ['file_descriptor', 'file_system']
    """
    return set(STRATEGIES)


def get_sharing_strategy():
    """The one in use.

    >>> import flambeau
    >>> flambeau.multiprocessing.get_sharing_strategy()
    'file_descriptor'
    """
    return _strategy[0]


def set_sharing_strategy(new_strategy):
    """Chooses one for memory shared from now on by this process and those it forks.

    >>> import flambeau
    >>> flambeau.multiprocessing.set_sharing_strategy("file_descriptor")
    """
    if new_strategy not in STRATEGIES:
        raise AssertionError(f"set_sharing_strategy: expected one of {STRATEGIES}, got {shown(new_strategy)}")
    _strategy[0] = new_strategy
