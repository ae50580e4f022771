"""What a call says about itself to the other ranks: its name, its tensor, and the line of the program it stands in."""

import sys
import threading
from pathlib import Path

_OWN = str(Path(__file__).resolve().parents[1]) + "/"
_texts = {}  # (code, line, name, shape, dtype, title) -> text
_MOST = 4096


class _Titles(threading.local):
    """Of this thread: what calls are called instead of their names, as `record_comm` says."""

    current = None


titles = _Titles()
watchers = []  # functions that are told the name of each call of this process


def where(name, tensor=None, more=""):
    """ "all_reduce [1024] float32 at train.py:40" """
    for watcher in watchers:
        watcher(name)
    frame = sys._getframe(2)
    while frame.f_code.co_filename.startswith(_OWN) and frame.f_back is not None:
        frame = frame.f_back
    shape = dtype = None
    if tensor is not None:
        shape, dtype = tuple(tensor.shape), tensor.dtype
    key = frame.f_code, frame.f_lineno, name, shape, dtype, more, titles.current
    text = _texts.get(key)
    if text is None:
        if len(_texts) >= _MOST:
            _texts.clear()
        size = "" if shape is None else f" {list(shape) if len(shape) < 9 else [*shape[:8], '…']} {str(dtype)[6:]}"
        line = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        title = "" if titles.current is None else f" as {titles.current}"
        text = _texts[key] = f"{name}{size}{more} at {line}{title}"
    return text
