"""Batches in shared memory: what a worker writes there, and the tensors over it in the main process.

A worker has a few segments, one for each batch on its way. It copies the tensors of a batch into one of them and sends
only their places. The main process makes tensors over that memory; when the last of them is gone, the segment goes back
to the worker for another batch. So memory is mapped and zeroed once, not once per batch.
"""

import io
import math
import os
import pickle
import weakref
from collections import deque
from threading import local

import flambeau

from .... import _C
from ...._tensor.shared_memory import memory_file

_ALIGNED = 64
_COPIED = 1 << 17  # a batch of fewer bytes is copied out, so that its segment is free at once


def new_file(nbytes):
    """Descriptor of a file that `Segment` can map."""
    return memory_file(_C.shared_room(nbytes))


class Segment:
    """Shared memory for one batch at a time; no descriptor stays open for it."""

    def __init__(self, number, fd, nbytes):
        self.number, self.nbytes = number, nbytes
        self.bytes = _C.SharedMemory(fd, nbytes).tensor()
        self.memory = memoryview(self.bytes)

    def tensor(self, start, dtype, shape, strides):
        """A tensor over memory from byte `start` on."""
        return _C.storage_view(self.bytes, dtype, start // dtype.itemsize, shape, strides)


def _rounded(nbytes):
    """Sizes in steps of at most an eighth, so that batches of slightly different size fit one segment."""
    step = 1 << max(12, nbytes.bit_length() - 4)
    return -(-nbytes // step) * step


# --- the worker's side --------------------------------------------------------------------------------------------

class _Parts:
    """The tensors and arrays of a batch and their places. Apart from the pickler, which would refer to itself."""

    def __init__(self):
        self.placed, self.total = [], 0  # (memoryview or tensor, start)

    def place(self, part, nbytes):
        """Where the part begins."""
        start = self.total
        self.placed.append((part, start))
        self.total = -(-(start + nbytes) // _ALIGNED) * _ALIGNED
        return start

    def buffer(self, buffer):
        """Takes the memory of an array."""
        raw = buffer.raw()
        self.place(raw, raw.nbytes)


class _Packer(pickle.Pickler):
    """Pickles a batch without the memory of its tensors and arrays."""

    def __init__(self, file, parts):
        self.parts = parts
        super().__init__(file, 5, buffer_callback=parts.buffer)

    def reducer_override(self, obj):
        if not isinstance(obj, _C.Tensor) or obj.layout is not _C.strided or obj.is_meta:
            return NotImplemented
        if obj.requires_grad and not obj.is_leaf:
            raise RuntimeError("DataLoader: a worker cannot send a non-leaf tensor that requires grad, since its graph "
                               "stays in the worker; return x.detach() from the dataset or collate_fn")
        plain = obj.detach().as_subclass(_C.Tensor)
        more = None
        if type(obj) is not _C.Tensor or obj.requires_grad or obj.__dict__:
            more = type(obj), obj.requires_grad, dict(obj.__dict__)
        start = self.parts.place(plain, plain.nbytes) if plain.numel() else 0
        return _tensor, (start, plain.dtype, tuple(plain.shape), _strides(plain), more)


class Outbox:
    """A worker's segments, and the parcels it makes in them."""

    def __init__(self, kept):
        self._kept = kept  # free segments beyond this many are given up
        self._free, self._lent, self._made = [], {}, 0

    def put_back(self, numbers):
        """The main process no longer uses these segments."""
        self._free += [self._lent.pop(number) for number in numbers]

    def pack(self, batch):
        """(parcel, descriptors to send with it)."""
        file = io.BytesIO()
        parts = _Parts()
        _Packer(file, parts).dump(batch)
        if not parts.placed:
            return (file.getvalue(), None, (), ()), ()
        segment, fd, dropped = self._segment(max(parts.total, 1))
        buffers = []
        for part, start in parts.placed:
            if isinstance(part, _C.Tensor):
                segment.tensor(start, part.dtype, tuple(part.shape), _strides(part)).copy_(part)
            else:
                segment.memory[start:start + part.nbytes] = part
                buffers.append((start, part.nbytes))
        self._lent[segment.number] = segment
        return (file.getvalue(), (segment.number, parts.total, fd is not None and segment.nbytes), buffers, dropped), \
            () if fd is None else (fd,)

    def _segment(self, nbytes):
        """(a free segment with room for `nbytes`, its descriptor if it is new, numbers of segments given up)."""
        self._free.sort(key=lambda segment: segment.nbytes)
        fits = [k for k, segment in enumerate(self._free) if segment.nbytes >= nbytes]
        segment = self._free.pop(fits[0]) if fits else None
        dropped = []
        while self._free and (segment is None or len(self._free) > self._kept):
            dropped.append(self._free.pop(0).number)  # the smallest ones
            if segment is None:
                break
        if segment is not None:
            return segment, None, dropped
        nbytes = _rounded(nbytes)
        try:
            fd = new_file(nbytes)
            self._made += 1
            return Segment(self._made, fd, nbytes), fd, dropped
        except OSError as error:
            raise _C.OutOfMemoryError(
                f"DataLoader: no shared memory for a batch of {nbytes:,} bytes ({error.strerror}); load smaller "
                "batches, or fewer at a time (num_workers, prefetch_factor)") from error


def _strides(t):
    return tuple(t.stride() if t.is_contiguous() else flambeau.empty_like(t).stride())


# --- the main process's side --------------------------------------------------------------------------------------

class _Received(Segment):
    """A segment of which the main process knows who uses it."""

    def __init__(self, number, fd, nbytes, free):
        super().__init__(number, fd, nbytes)
        self._free, self._uses, self.out = free, {}, False

    def part(self, start, nbytes):
        """A piece of the memory; when no piece is used any more, the segment is free."""
        piece = self.memory[start:start + nbytes]
        use = weakref.ref(piece, self._ended)
        self._uses[id(use)] = use
        return piece

    def _ended(self, use):
        del self._uses[id(use)]
        if not self._uses:
            self._free.append(self.number)


class Inbox:
    """The segments of one worker as the main process has them mapped."""

    def __init__(self):
        self._segments, self._freed = {}, deque()

    def freed(self):
        """The numbers of the segments that the worker may use again."""
        numbers = []
        for _ in range(len(self._freed)):
            number = self._freed.popleft()
            if self._segments[number].out:  # two threads that drop its last tensors may both have reported it
                self._segments[number].out = False
                numbers.append(number)
        return numbers

    def unpack(self, parcel, fds):
        """The batch of a parcel."""
        skeleton, place, buffers, dropped = parcel
        for number in dropped:
            self._segments.pop(number)
        if place is None:
            return pickle.loads(skeleton)
        number, total, made = place
        if made:
            self._segments[number] = _Received(number, fds[0], made, self._freed)
            os.close(fds[0])
        segment = self._segments[number]
        segment.out = True
        copied = total <= _COPIED
        memory = segment.memory[:total] if copied else segment.part(0, total)
        _open.segment, _open.copied = segment, copied
        try:
            return pickle.loads(skeleton, buffers=[
                bytearray(memory[start:start + n]) if copied else segment.part(start, n) for start, n in buffers])
        finally:
            _open.segment = None
            if copied:
                self._freed.append(number)


_open = local()  # the segment of the parcel that this thread unpacks


def _tensor(start, dtype, shape, strides, more):
    """A tensor of the open segment."""
    segment, nbytes = _open.segment, dtype.itemsize * math.prod(shape)
    if not nbytes:
        t = flambeau.empty(shape, dtype=dtype)
    elif _open.copied:
        t = segment.tensor(start, dtype, shape, strides).clone()
    else:
        t = _C.storage_view(_C.frombuffer(segment.part(start, nbytes), dtype=_C.uint8), dtype, 0, shape, strides)
    if more is None:
        return t
    kind, requires_grad, state = more
    if kind is not _C.Tensor:
        t = _C.Tensor._make_subclass(kind, t, requires_grad)
    elif requires_grad:
        t.requires_grad_()
    t.__dict__.update(state)
    return t
