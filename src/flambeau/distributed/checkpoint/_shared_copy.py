"""A state dict as another process gets it: its tensors lie in one piece of shared memory, the rest is pickled."""

import io
import mmap
import os
import pickle
from collections.abc import Mapping

import flambeau

from ..._tensor.shared_memory import memory_file
from . import _chunks

_ALIGNED = 64
_LEAST = 1 << 16


class Room:
    """Memory that two processes have mapped."""

    def __init__(self, nbytes=_LEAST, file=None):
        self.file = memory_file(nbytes) if file is None else file
        self.size = os.fstat(self.file).st_size
        self.memory = mmap.mmap(self.file, self.size)

    def tensor(self, offset, shape, dtype):
        """A tensor over a part of it."""
        if not flambeau.Size(shape).numel():
            return flambeau.empty(shape, dtype=dtype)
        return flambeau.frombuffer(self.memory, dtype=dtype, count=flambeau.Size(shape).numel(),
                                   offset=offset).view(shape)

    def __del__(self):
        if getattr(self, "file", -1) >= 0:
            os.close(self.file)  # what is mapped stays, as long as it is used


class _Out(pickle.Pickler):
    def __init__(self, stream, placed):
        super().__init__(stream, pickle.HIGHEST_PROTOCOL)
        self._placed = placed

    def persistent_id(self, value):
        found = self._placed.get(id(value))
        return None if found is None else found[1:]


class _In(pickle.Unpickler):
    def __init__(self, stream, room):
        super().__init__(stream)
        self._room = room

    def persistent_load(self, key):
        return self._room.tensor(*key)


def _plain(value):
    """Whether a tensor's elements may lie in the room."""
    return (isinstance(value, flambeau.Tensor) and type(value) in (flambeau.Tensor, flambeau.nn.Parameter)
            and value.layout is flambeau.strided and not value.is_quantized and value.device.type == "cpu")


def _held(value):
    """DTensors as what this rank has of them: another process has no mesh."""
    if isinstance(value, Mapping):
        return {key: _held(part) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_held, value))
    if type(value) is flambeau.distributed.tensor.DTensor:
        return _chunks.held("a tensor", value) or _chunks.NOWHERE
    return value


def _tensors(value, found):
    if isinstance(value, Mapping):
        value = value.values()
    elif isinstance(value, _chunks.Held):
        value = [value.local]
    elif type(value) not in (list, tuple):
        if _plain(value):
            found.setdefault(id(value), value)
        return
    for part in value:
        _tensors(part, found)


def stored(state, rest, room_for):
    """(bytes, the Room) of a state dict and of `rest`, other values; room_for(bytes) gives the Room."""
    state, found, placed, at = _held(state), {}, {}, 0
    _tensors(state, found)
    for key, x in found.items():
        placed[key] = x, at, tuple(x.shape), x.dtype  # x: its id stays its own
        at += -(-x.nbytes // _ALIGNED) * _ALIGNED
    room = room_for(at)
    for x, offset, shape, dtype in placed.values():
        room.tensor(offset, shape, dtype).copy_(x.detach())
    stream = io.BytesIO()
    _Out(stream, placed).dump((state, rest))
    return stream.getvalue(), room


def restored(content, room):
    """(the state dict, the rest)"""
    return _In(io.BytesIO(content), room).load()
