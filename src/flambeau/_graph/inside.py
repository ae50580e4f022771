"""Blocks that a program can ask whether it is inside of: traces and exports. Each thread has its own answer."""

import contextlib
import contextvars

#: whether a function runs as it is that a compiler was asked for
AS_IT_IS = contextvars.ContextVar("as_it_is", default=False)
#: whether a scripted function or module runs
SCRIPTING = contextvars.ContextVar("scripting", default=False)


def is_scripting():
    """Whether this is a program, or the Python of one: inside what `jit.script` returned, and in its text.

    >>> import flambeau
    >>> flambeau.jit.script(lambda: flambeau.jit.is_scripting())(), flambeau.jit.is_scripting()
    (True, False)
    """
    return SCRIPTING.get()


class Inside:
    """`with block():` is such a block, and `bool(block)` says whether this thread is inside.

    >>> from flambeau._graph.inside import Inside
    >>> block = Inside("block")
    >>> with block():
    ...     bool(block)
    True
    >>> bool(block)
    False
    """

    def __init__(self, name):
        self._depth = contextvars.ContextVar(name, default=0)

    @contextlib.contextmanager
    def __call__(self):
        token = self._depth.set(self._depth.get() + 1)
        try:
            yield
        finally:
            self._depth.reset(token)

    def __bool__(self):
        return self._depth.get() > 0
