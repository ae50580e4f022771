"""What determinism asks of memory that nobody has written: it is filled, unless a program says not to."""

import sys
import types

from .. import _settings
from .._shown import shown


class _Deterministic(types.ModuleType):
    @property
    def fill_uninitialized_memory(self):
        """Whether `empty` fills its result, with NaN or the largest integer, while results must be deterministic.

        >>> import flambeau
        >>> flambeau.use_deterministic_algorithms(True)
        >>> flambeau.empty(2), flambeau.empty(1, dtype=flambeau.int8)
        (tensor([nan, nan]), tensor([127], dtype=torch.int8))
        >>> flambeau.use_deterministic_algorithms(False)
        """
        return _settings.fill_uninitialized_memory()

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, value):
        if type(value) is not bool:
            raise RuntimeError(f"fill_uninitialized_memory: expected a bool, got {shown(value)}")
        _settings.fill_uninitialized_memory(value)


sys.modules[__name__].__class__ = _Deterministic
