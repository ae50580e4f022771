"""The standard streams: closed ones are replaced, and a reader that has gone ends the command quietly."""

import os
import sys
from contextlib import suppress

READER_GONE = 141  # what a shell reports of a program that SIGPIPE ended: 128 + 13


def open_closed_streams():
    """Gives the descriptors 0, 1 and 2 to the null device where they are closed.

    The next file that is opened would take such a number, and what is printed would go into it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            handle = os.open(os.devnull, os.O_RDWR)  # the lowest free number
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 (open to the end)


def abandon_stdout():
    """Sends to the null device what is still to be printed: the interpreter would fail again when it ends."""
    handle = os.open(os.devnull, os.O_WRONLY)
    with suppress(OSError):
        os.dup2(handle, sys.stdout.fileno())
    os.close(handle)
