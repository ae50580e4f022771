"""What the C library does with memory that samples have used: it keeps it for the next sample.

An image decoder allocates some hundred kilobytes and frees them again. The C library would give them back to the system
each time, and take fresh pages for the next image: a third of the time that decoding takes. It learns to keep blocks of
a size when it sees one of them freed. Programs whose tensors come from the C library have it learn this by the way;
here tensors have an allocator of their own.
"""

import ctypes
from functools import cache

_LARGEST = (32 << 20) - (1 << 16)  # the GNU library keeps no larger ones; it gives memory back beyond twice this


@cache
def keep_freed():
    """Has the C library keep freed memory, as far as the user's own settings for it (MALLOC_…) allow."""
    library = ctypes.CDLL(None)
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    library.free.restype, library.free.argtypes = None, [ctypes.c_void_p]
    library.free(library.malloc(_LARGEST))  # never touched, so it costs no page
