"""Lists and dicts whose items have one type of TorchScript: scripts take them as they are, and what a script changes
in them is changed for Python too."""

from .._shown import shown
from ._types import type_of


def _kind_of(what, values):
    """The one type of the values; None where there are none."""
    kinds = {type_of(value): value for value in values}
    if len(kinds) > 1 or None in kinds:
        raise TypeError(f"jit.script: the {what} must have one type of TorchScript, got {shown(list(kinds.values()))}")
    return next(iter(kinds), None)


class ScriptList(list):
    """What `jit.script` makes of a list: a copy that takes items of one type.

    >>> import flambeau
    >>> numbers = flambeau.jit.script([1, 2])
    >>> numbers.append("three")
    Traceback (most recent call last):
    TypeError: ScriptList: its items are of type int, got 'three'
    """

    def __init__(self, items=()):
        items = list(items)
        self._kind = _kind_of("items", items)
        super().__init__(items)

    def _checked(self, *items):
        for item in items:
            kind = type_of(item)
            if kind is None or (self and kind != self._kind):
                raise TypeError(f"ScriptList: its items are of type {self._kind}, got {shown(item)}")
            self._kind = kind
        return items

    def __contains__(self, item):
        return super().__contains__(*self._checked(item))

    def __getitem__(self, index):
        found = super().__getitem__(index)
        return ScriptList(found) if isinstance(index, slice) else found

    def __setitem__(self, index, value):
        super().__setitem__(index, list(self._checked(*value)) if isinstance(index, slice) else self._checked(value)[0])

    def append(self, item):
        """Adds an item at the end."""
        super().append(*self._checked(item))

    def insert(self, index, item):
        """Puts an item before the one at `index`."""
        super().insert(index, *self._checked(item))

    def extend(self, items):
        """Adds items at the end."""
        super().extend(self._checked(*items))

    def count(self, item):
        """How often an item is there."""
        return super().count(*self._checked(item))

    def remove(self, item):
        """Takes the first such item out."""
        super().remove(*self._checked(item))


class ScriptDict(dict):
    """What `jit.script` makes of a dict: a copy whose keys have one type, and its values too.

    >>> import flambeau
    >>> counts = flambeau.jit.script({"a": 1})
    >>> counts["b"] = 2.5
    Traceback (most recent call last):
    TypeError: ScriptDict: its values are of type int, got 2.5
    """

    def __init__(self, items=()):
        items = dict(items)
        self._kinds = _kind_of("keys", items), _kind_of("values", items.values())
        super().__init__(items)

    def __setitem__(self, key, value):
        kinds = type_of(key), type_of(value)
        for what, item, kind, known in zip(("keys", "values"), (key, value), kinds, self._kinds, strict=True):
            if kind is None or (self and kind != known):
                raise TypeError(f"ScriptDict: its {what} are of type {known}, got {shown(item)}")
        self._kinds = kinds
        super().__setitem__(key, value)

    def update(self, *items, **named):
        """Sets the entries of a mapping, or of pairs."""
        for key, value in dict(*items, **named).items():
            self[key] = value
