"""Replacing a file in one move: what other programs see is the old file or the complete new one."""

import errno
import fcntl
import os
import re
from contextlib import contextmanager, suppress
from stat import S_IMODE, S_ISDIR, S_ISREG

_OURS = re.compile(r"\..+\.\d+\.[0-9a-f]{8}\.tmp", re.DOTALL)
_MOST_LINKS = 40
_LONGEST = 100  # bytes of the file's name that a temporary name repeats; names have at most 255
#: what a file system answers that cannot synchronise a folder, or does not let us open it
_NOT_FOR_FOLDERS = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM, errno.EBADF, errno.EISDIR)


@contextmanager
def replacing(path):
    """A file in the folder of `path` that becomes `path` in one move when the block succeeds, else disappears.

    Temporary files that killed processes have left in that folder are removed.
    """
    target = _followed(path)
    folder, name = os.path.split(target)
    folder = folder or os.curdir
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, f"there is no folder {folder} to write it into", path)
    mode = _mode(target)
    if mode is not None and S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a directory", path)
    if mode is not None and not S_ISREG(mode):  # a device or a pipe cannot be replaced
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
            os.replace(temporary, target)  # while it is locked: others would take it for abandoned
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _synchronise(folder)


def _followed(path):
    """The file that a path stands for, through symbolic links; a link that cannot be read is an error, not a file."""
    path = os.fspath(path)
    for _ in range(_MOST_LINKS):
        try:
            path = os.path.join(os.path.dirname(path), os.readlink(path))
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR):  # no link, or nothing yet
                return path
            raise
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def _mode(path):
    """What is at a path; None for nothing. Other errors are errors: the answer would be a guess."""
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


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
    mode = _mode(target)
    if mode is not None and S_IMODE(os.fstat(file.fileno()).st_mode) != S_IMODE(mode):
        os.fchmod(file.fileno(), S_IMODE(mode))


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
