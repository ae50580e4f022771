"""The memory of files: their bytes without reading them. Changes stay in this process, or reach the file if asked."""

import os
from mmap import ACCESS_COPY, ACCESS_WRITE, mmap


def mapped(file, shared=False):
    """The file's memory; None for an empty one, and for what is no file on a disk. shared: changes reach the file."""
    try:
        number = file.fileno()
        return mmap(number, 0, access=ACCESS_WRITE if shared else ACCESS_COPY) if os.fstat(number).st_size else None
    except (AttributeError, OSError, ValueError):
        return None


def contents(file):
    """All bytes of a file: its memory where it lies on a disk, else a copy."""
    found = mapped(file)
    if found is None:
        file.seek(0)
        found = file.read()
    return found
