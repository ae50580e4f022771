"""Copies of tensors' memory that end, or begin, where a page ends that nobody may touch."""

import ctypes
import mmap
import os

_C = ctypes.CDLL(None, use_errno=True)
_C.mmap.restype = ctypes.c_void_p
_C.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_C.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_C.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Fences:
    """A place for each memory while the context lasts; what was written comes back at its end."""

    def __init__(self, at_end):
        self.at_end, self.maps, self.copies = at_end, [], {}

    def room(self, nbytes, alignment=16):
        """The address of that many bytes of garbage between two closed pages, next to one of them."""
        page = mmap.PAGESIZE
        inner = -(-max(nbytes, 1) // page) * page
        base = _C.mmap(None, inner + 2 * page, mmap.PROT_READ | mmap.PROT_WRITE,
                       mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        if base == ctypes.c_void_p(-1).value:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        for closed in (base, base + page + inner):
            _C.mprotect(closed, page, 0)
        self.maps.append((base, inner + 2 * page))
        ctypes.memset(base + page, 0xff, inner)
        return base + page + (inner - -(-nbytes // alignment) * alignment if self.at_end else 0)

    def tensor(self, x):
        """The address of its first element there; tensors that share memory share it there."""
        memory = x.untyped_storage()
        start, nbytes = memory.data_ptr(), memory.nbytes()
        if start not in self.copies:
            aligned = start % 16 == 0
            place = self.room(nbytes, 16 if aligned else x.element_size())
            ctypes.memmove(place, start, nbytes)
            self.copies[start] = place, nbytes, memory
        return self.copies[start][0] + x.data_ptr() - start

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for start, (place, nbytes, _) in self.copies.items():
            ctypes.memmove(start, place, nbytes)
        for base, size in self.maps:
            _C.munmap(base, size)
