"""Runs Python anew, so that a program finds itself as if nothing stood before it: __main__, arguments, tracebacks."""

import os
import sys

from ._install import PATH, environment


def run(arguments):
    """Becomes `python ARGUMENTS…` with torch served by this library; `--path` prints the folder that does it."""
    if arguments == ["--path"]:
        print(PATH)
        return
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *arguments], environment(os.environ))
