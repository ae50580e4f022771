"""The version of PyTorch's API that this library is written to, as version checks ask for it."""

import re
from functools import total_ordering

from ..version import __version__ as _ours

_FORM = re.compile(r"v?(\d+(?:\.\d+)*)(?:[._-]?(a|b|c|rc|alpha|beta|pre|preview|dev)[._-]?(\d*).*?)?(?:\+(.*))?")


def _key(version):
    """What orders versions (PEP 440): numbers, what comes before a release, what a builder added."""
    text = ".".join(map(str, version)) if isinstance(version, (tuple, list)) else str(version)
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    numbers = tuple(map(int, found[1].split(".")))
    while numbers and numbers[-1] == 0:
        numbers = numbers[:-1]
    before = (2,) if found[2] is None else (found[2] != "dev", found[2][0], int(found[3] or 0))
    return numbers, before, found[4] or ""


@total_ordering
class TorchVersion(str):
    """A version that compares with strings and with tuples of numbers.

    >>> from flambeau.as_torch import TorchVersion
    >>> TorchVersion("2.13.0") >= "2.9", TorchVersion("2.13.0") < (3, 0)
    (True, True)
    """

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other):
        mine, theirs = _key(self), _key(other)
        return str.__eq__(self, other) if None in (mine, theirs) else mine == theirs

    def __lt__(self, other):
        mine, theirs = _key(self), _key(other)
        return str.__lt__(self, other) if None in (mine, theirs) else mine < theirs

    # str has these, so total_ordering would leave them
    def __le__(self, other):
        return self == other or self < other

    def __gt__(self, other):
        return not self <= other

    def __ge__(self, other):
        return not self < other


__version__ = TorchVersion(f"2.13.0+flambeau.{_ours}")
