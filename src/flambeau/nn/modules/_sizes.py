"""Sizes given as one number or one per dimension."""

from collections.abc import Iterable


def repeated(value, count):
    """`value` as a tuple of `count`; a sequence is taken as it is."""
    return tuple(value) if isinstance(value, Iterable) else (value,) * count


class Shown:
    """Mixin: the repr lists the attributes named in `_shown`."""

    __slots__ = ()

    _shown = ()

    def extra_repr(self):
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self._shown)
