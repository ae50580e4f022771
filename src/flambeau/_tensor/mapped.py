"""Files mapped into memory, as tensors and as the memory of storages."""

import mmap
import os

from .. import _C
from .creation import tensor


def from_file(filename, shared=None, size=0, *, dtype=None, layout=None, device=None, pin_memory=False):
    """A 1-d tensor of `size` elements over a file that is mapped into memory.

    shared=True: writes go to the file, which is made or lengthened where needed; otherwise they stay in memory.
    """
    if pin_memory or layout not in (None, _C.strided) or (device is not None and _C.device(device).type != "cpu"):
        raise NotImplementedError("from_file: only strided CPU memory that is not pinned is available")
    dtype = _C.default_dtype() if dtype is None else dtype
    return _C.frombuffer(map_file(filename, bool(shared), size * dtype.itemsize), dtype=dtype, count=size) \
        if size else tensor([], dtype=dtype)


def map_file(filename, shared, nbytes):
    """The first `nbytes` of a file as writable memory."""
    try:
        fd = os.open(filename, os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY)
    except OSError as error:
        raise RuntimeError(f"from_file: {filename} cannot be opened {'to read and write' if shared else 'to read'}: "
                           f"{error.strerror} ({error.errno})") from None
    with os.fdopen(fd, "r+b" if shared else "rb") as file:
        length = file.seek(0, 2)
        if length < nbytes:
            if not shared:
                raise RuntimeError(f"from_file: file <{filename}> has {length} bytes, {nbytes} are asked for")
            file.truncate(nbytes)
        return mmap.mmap(file.fileno(), nbytes, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)
