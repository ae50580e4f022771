"""Which format a file has, by its first bytes."""

import os
from mmap import ACCESS_COPY, mmap

from .archive import Archive
from .legacy import START, LegacyArchive


def opened(file, name):
    """The parts of a file as `save` or PyTorch wrote it, in either format."""
    file.seek(0)
    if file.read(len(START)) == START:
        return LegacyArchive(contents(file), name)
    return Archive(file, name)


def contents(file):
    """All bytes of a file: its memory where it lies on a disk, else a copy."""
    found = mapped(file)
    if found is None:
        file.seek(0)
        found = file.read()
    return found


def mapped(file):
    """The file's memory; None for an empty one, and for what is no file on a disk."""
    try:
        number = file.fileno()
        return mmap(number, 0, access=ACCESS_COPY) if os.fstat(number).st_size else None
    except (AttributeError, OSError, ValueError):
        return None
