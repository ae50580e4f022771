"""Names of nodes and globals: unique in their graph, valid in Python, and none that generated code needs itself."""

import builtins
import keyword
import re

from .._shown import shown

#: what generated code takes from its globals, whoever made the graph
RESERVED = {"inf", "nan", "NoneType", "torch", "flambeau", "device", "fx_pytree", "pytree"}
_NUMBERED = re.compile(r"(.*)_(\d+)")
_ILLEGAL = re.compile(r"\W+", re.ASCII)
_HUMP = re.compile(r"(?<=[A-Za-z0-9])(?=[A-Z][a-z])|(?<=[a-z0-9])(?=[A-Z])")


def is_taken(name, value=None):
    """Whether Python or generated code uses the name for something else than `value`."""
    if keyword.iskeyword(name) or name in RESERVED:
        return True
    return hasattr(builtins, name) and getattr(builtins, name) is not value


def snake_case(text):
    """`BatchNorm2d` as `batch_norm2d`: what names made of targets look like.

    >>> from flambeau.fx._names import snake_case
    >>> snake_case("layer1.BatchNorm2d"), snake_case("_add")
    ('layer1.batch_norm2d', '_add')
    """
    return _HUMP.sub("_", text).replace("._", ".").lower()


class Namespace:
    """Gives each name once: the second `x` is `x_1`."""

    def __init__(self):
        self._used = set()
        self._next = {}   # base name -> the number that is tried next
        self._names = {}  # object -> the name it has been given

    def create_name(self, candidate, obj):
        """A name like `candidate` that is free; the same again for an `obj` that has one (None has none)."""
        if obj is not None and obj in self._names:
            return self._names[obj]
        name = _ILLEGAL.sub("_", candidate) or "_unnamed"
        if name[0].isdigit():
            name = f"_{name}"
        if name in self._used or is_taken(name, obj):
            name = self._numbered(name, obj)
        self._used.add(name)
        if obj is not None:
            self._names[obj] = name
        return name

    def _numbered(self, name, obj):
        found = _NUMBERED.fullmatch(name)
        base, number = (found[1], int(found[2])) if found and name in self._used else (name, 0)
        number = max(self._next.get(base, 0), number) + 1
        while f"{base}_{number}" in self._used or is_taken(f"{base}_{number}", obj):
            number += 1
        self._next[base] = number
        return f"{base}_{number}"

    def associate_name_with_obj(self, name, obj):
        """Says that `obj` goes by a name that has been given already."""
        self._names[obj] = name

    def rename(self, obj, name):
        """Gives an object another name, which must be free."""
        if name in self._used:
            raise ValueError(f"the name {shown(name)} is taken in this graph")
        self._used.add(name)
        self._names[obj] = name

    def discard(self, obj):
        """Forgets an object; its name stays used, so that it never stands for two things."""
        self._names.pop(obj, None)
