"""Generated functions: made of source that tracebacks and debuggers can show, through `linecache`."""

import linecache
from itertools import count

_numbers = count()
_PREFIX = "<flambeau graph "


def compiled(code, filename=None):
    """The globals in which the source of a PythonCode has run; its lines appear in tracebacks."""
    filename = filename or f"{_PREFIX}{next(_numbers)}>"
    space = dict(code.globals)
    # a list without modification time stays in linecache until its graph is gone
    linecache.cache[filename] = (len(code.src), None, code.src.splitlines(keepends=True), filename)
    space["__name__"] = filename
    exec(compile(code.src, filename, "exec"), space)
    return space


def forward_of(code):
    """The function that a PythonCode describes."""
    return compiled(code)["forward"]


def forget(function):
    """Gives back the memory of a generated function's source."""
    linecache.cache.pop(function.__code__.co_filename, None)
