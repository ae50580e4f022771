"""What determinism asks of memory that nobody has written: nothing here, since it is never filled."""

import sys
import types

from .._shown import shown


class _Deterministic(types.ModuleType):
    @property
    def fill_uninitialized_memory(self):
        """Whether `empty` fills its result while deterministic algorithms are asked for: no."""
        return False

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, value):
        if type(value) is not bool:
            raise RuntimeError(f"fill_uninitialized_memory: expected a bool, got {shown(value)}")
        if value:
            raise NotImplementedError("fill_uninitialized_memory: the result of empty is never filled; use zeros, or "
                                      "full with NaN, where a program may read what it has not written")


sys.modules[__name__].__class__ = _Deterministic
