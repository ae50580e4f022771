"""Source of functions: read from their files, and that of generated ones, which tracebacks and debuggers can show
through `linecache`."""

import ast
import linecache
from collections import deque
from itertools import count

_numbers = count()
_PREFIX = "<flambeau graph "
_forgotten = deque()  # file names whose source nobody needs any more


def parsed(text):
    """The syntax tree of a function's source as it stands in its file: indented, with texts that may be not."""
    if not text[:1].isspace():
        return ast.parse(text)
    whole = ast.parse("if True:\n" + text).body[0]
    return ast.increment_lineno(ast.Module(whole.body, []), -1)


def compiled(code, filename=None):
    """The globals in which the source of a PythonCode has run; its lines appear in tracebacks."""
    _drop_forgotten()
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
    """Gives back the memory of a generated function's source, when the next one is made.

    Not at once: a finalizer calls this, perhaps in the middle of somebody's loop over `linecache.cache`.
    """
    _forgotten.append(function.__code__.co_filename)


def _drop_forgotten():
    while _forgotten:
        linecache.cache.pop(_forgotten.popleft(), None)
