"""One training at a time writes into a folder: a lock that the kernel frees when its holder ends, however it ends."""

import fcntl
import os
import shlex
import socket
import sys
import time
from contextlib import contextmanager, suppress

from .._files.replacing import is_at
from .errors import UserError, reason

NAME = ".lock"
_LONGEST = 400


@contextmanager
def locked(folder):
    """Holds the folder; where another training does, a UserError says which."""
    path = folder / NAME
    try:
        file = _hold(path, folder)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written to: {reason(error)}") from error
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()  # before the lock is given up: who waits for it sees that the file is gone
        file.close()


def _hold(path, folder):
    while True:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644), "r+",
                         encoding="utf-8", errors="replace")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            words = "".join(c if c.isprintable() else " " for c in file.read(_LONGEST)).strip()
            file.close()
            raise UserError(f"{folder}: another training writes there ({words or 'it does not say which'}): "
                            "wait for it, or choose another folder with --output") from None
        except OSError as error:
            print(f"warning: {folder}: this file system has no locks ({reason(error)}): a second training into the "
                  "same folder would not be noticed", file=sys.stderr)
            return file
        if is_at(file, path):
            with suppress(OSError):  # a full disk: the lock holds without words
                _describe(file)
            return file
        file.close()  # its holder removed it between our opening and locking it


def _describe(file):
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}, since {time.strftime('%Y-%m-%d %H:%M:%S')}: "
               f"{shlex.join(['flambeau', *sys.argv[1:]])}")
    file.flush()
