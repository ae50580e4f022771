"""Replacing a file in one move: what other programs see is the old file or the complete new one."""

import errno
import fcntl
import os
import re
from contextlib import contextmanager, suppress
from stat import S_IMODE, S_ISREG

_OURS = re.compile(r"\..+\.\d+\.[0-9a-f]{8}\.tmp", re.DOTALL)
_LONGEST = 100  # bytes of the file's name that a temporary name repeats; names have at most 255
#: what a file system answers that cannot synchronise a folder, or does not let us open it
_NOT_FOR_FOLDERS = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM, errno.EBADF, errno.EISDIR)


@contextmanager
def replacing(path):
    """A file in the folder of `path` that becomes `path` in one move when the block succeeds, else disappears.

    Temporary files that killed processes have left in that folder are removed.
    """
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, f"there is no folder {folder} to write it into", path)
    if os.path.isdir(target):
        raise IsADirectoryError(errno.EISDIR, "it is a directory", path)
    if os.path.exists(target) and not os.path.isfile(target):  # a device or a pipe cannot be replaced
        with open(target, "wb") as file:
            yield file
        return
    _clear_abandoned(folder)
    temporary, file = _temporary(folder, name)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            _take_over_mode(file, target)
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _synchronise(folder)


def _temporary(folder, name):
    """A new file that is locked as long as it is open: the kernel frees the lock when its process ends, however."""
    start = os.fsdecode(os.fsencode(name)[:_LONGEST])
    while True:
        path = os.path.join(folder, f".{start}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
        file = open(path, "xb")  # noqa: SIM115 (the caller closes it)
        try:
            with suppress(OSError):  # no locks on this file system: then nobody else gets one either
                fcntl.flock(file, fcntl.LOCK_EX)
            if is_at(file, path):  # else another process took it for abandoned before it was locked
                return path, file
        except BaseException:
            file.close()
            with suppress(OSError):
                os.unlink(path)
            raise
        file.close()


def is_at(file, path):
    """Whether the open file is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def _clear_abandoned(folder):
    """Removes temporary files of processes that are gone: those nobody has locked."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _OURS.fullmatch(entry.name):
                with suppress(OSError):
                    _clear(entry.path)


def _clear(path):
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if S_ISREG(os.fstat(handle).st_mode):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
    finally:
        os.close(handle)


def _take_over_mode(file, target):
    """Gives the new file the permissions of the old one."""
    try:
        mode = S_IMODE(os.stat(target).st_mode)
    except FileNotFoundError:
        return
    if S_IMODE(os.fstat(file.fileno()).st_mode) != mode:
        os.fchmod(file.fileno(), mode)


def _synchronise(folder):
    """The new name itself must survive a power cut; not every file system can promise it."""
    try:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno not in _NOT_FOR_FOLDERS:
            raise
