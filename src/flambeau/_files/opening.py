"""Which format a file has, by its first bytes."""

import importlib
import io

from . import numpy_format
from .archive import Archive
from .legacy import START, LegacyArchive
from .mapping import contents

_NAME = 30  # where the name of a zip archive's first entry begins


def opened(file, name):
    """The parts of a file as `save` or PyTorch wrote it, in either format."""
    if start_of(file)[:len(START)] == START:
        return LegacyArchive(contents(file), name)
    return Archive(file, name)


def from_here(file):
    """The file; or, where an object begins at its position, what follows from there on."""
    at = file.tell()
    if not at:
        return file
    begins = file.read(len(START)).startswith((START, b"PK\x03\x04"))
    file.seek(at)
    return io.BytesIO(file.read()) if begins else file


def start_of(file):
    """The first bytes of a file."""
    file.seek(0)
    return file.read(_NAME + 256)


def format_of(start, size):
    """The format of a file that begins so: "npy", "npz", "safetensors", or "objects" for what `opened` reads."""
    if start.startswith(numpy_format.MAGIC):
        return "npy"
    first = start[_NAME:_NAME + int.from_bytes(start[26:28], "little")]
    if start.startswith(b"PK\x03\x04") and first.endswith(b".npy"):
        return "npz"
    if start[8:9] == b"{" and int.from_bytes(start[:8], "little") + 8 <= size:
        return "safetensors"
    return "objects"


def tensors_of(kind, file, name, memory):
    """What a file without objects holds: a tensor, or {name: tensor}, in its `memory` where that is given."""
    if kind == "safetensors":
        safetensors = importlib.import_module("flambeau._files.safetensors_format")
        return safetensors.load(contents(file)) if memory is None else safetensors.load_file(name)
    if kind == "npz":
        return numpy_format.Arrays(file, name).load(memory)
    data = contents(file) if memory is None else memory
    return numpy_format.read_npy(data, 0, len(data), name, memory is not None)
