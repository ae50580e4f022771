"""Tensors of a checkpoint's files, read to where they are wanted: no memory between the file and its target."""

import io
import os

import flambeau

from ..._files.archive import Archive
from ..._files.loader import Loader
from ..._files.opening import format_of, opened, start_of
from ..._files.skipping import skipping
from ..._shown import shown


class Part(io.RawIOBase):
    """`length` bytes of a file from `start` on, as a file of their own."""

    def __init__(self, file, start, length, name):
        self.file, self.start, self.length, self.at, self.name = file, start, length, 0, name

    def readable(self):
        return True

    def seekable(self):
        return True

    def tell(self):
        return self.at

    def seek(self, offset, whence=os.SEEK_SET):
        self.at = max(0, {os.SEEK_SET: 0, os.SEEK_CUR: self.at, os.SEEK_END: self.length}[whence] + offset)
        return self.at

    def readinto(self, memory):
        count = max(0, min(len(memory), self.length - self.at))
        self.file.seek(self.start + self.at)
        count = self.file.readinto(memoryview(memory)[:count])
        self.at += count
        return count


class _Into(Loader):
    """A loader whose first storage goes into the memory that `room(bytes)` gives for it, if it gives any."""

    def __init__(self, archive, room):
        super().__init__(archive, "cpu", None)
        self.room = room

    def fetch(self, number, *_):
        entry = "data/" + number
        size = self.archive.size(entry)
        memory = self.room(size) if self.room is not None and size else None
        if memory is None:
            return super().fetch(number)
        self.room = None
        self.archive.read_into(entry, memoryview(memory))
        return memory


class TensorReader:
    """Reads tensors, one after the other; each is good until the next one is read."""

    def __init__(self):
        self._scratch = flambeau.empty(0, dtype=flambeau.uint8)

    def read(self, part, target=None):
        """The tensor of a Part; over the target's own memory, where that is dense and the file has as many bytes."""
        archive = None
        if not skipping() and format_of(start_of(part), part.length) == "objects":
            archive = opened(part, part.name)
        if isinstance(archive, Archive):
            found = _Into(archive, self._room_of(target)).load()
        else:
            part.seek(0)
            found = flambeau.load(part, map_location="cpu")
        if not isinstance(found, flambeau.Tensor):
            raise RuntimeError(f"load: {part.name} has {shown(found)} at {part.start}, expected a tensor")
        return found

    def _room_of(self, target):
        if target is None or target.device.type != "cpu" or not target.is_contiguous():
            return self._room
        if target.is_conj() or target.is_neg():
            return self._room
        memory = target.view(-1).view(flambeau.uint8)
        return lambda size: memory if memory.numel() == size else self._room(size)

    def _room(self, size):
        if self._scratch.numel() < size:
            self._scratch = flambeau.empty(size, dtype=flambeau.uint8)
        return self._scratch[:size]


def fill(target, found):
    """Gives a tensor the values of one that was read, perhaps into the tensor's own memory."""
    if found.untyped_storage().data_ptr() != target.untyped_storage().data_ptr():
        return target.copy_(found)
    if found.dtype is target.dtype and found.stride() == target.stride() and found.data_ptr() == target.data_ptr():
        target._bump_version()  # the file wrote to it
        return target
    return target.copy_(found.clone())  # it has other strides, or another dtype of the same size
