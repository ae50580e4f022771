"""Saving in the background: the values are copied once, then one thread writes one file after the other."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

_lock = threading.Lock()
_writer = [None]  # the thread, made when it is first needed; files are written in the order of the calls


def in_background(content, write):
    """Copies the storages of `content`, and calls `write(content)` in the writing thread; a Future of its result."""
    content.storages = {number: memory.clone() for number, memory in content.storages.items()}
    with _lock:
        if _writer[0] is None:
            _writer[0] = ThreadPoolExecutor(1, "flambeau-save")
        return _writer[0].submit(write, content)


def _forget():
    """The child of a fork has no such thread, and the lock may have been held."""
    global _lock
    _lock = threading.Lock()
    _writer[0] = None


os.register_at_fork(after_in_child=_forget)
