"""How values of users and files appear in messages: short, whatever they are, and without running their code."""

from enum import Enum, IntEnum

from . import _C

_WHOLE = (type(None), bool, type(Ellipsis), type(NotImplemented), _C.dtype, _C.device)
_LONGEST = 200
_LONGEST_ITEM = 60
_MOST = 8
#: sized by their own type's length, which no subclass can replace
_SIZED = (tuple, list, dict, set, frozenset, bytearray)


class NamedNumber(IntEnum):
    """Numbers with names, which `str` gives; an IntEnum's gives the number."""

    __str__, __format__ = Enum.__str__, Enum.__format__


def shown(value, nested=False):
    """A text of bounded length and cost: scalars as they are, a short tuple's or list's items, a type's name.

    A subclass's own `__repr__`, `__len__` or `__iter__` is never called: it may raise, or not end.
    """
    kind = type(value)
    if kind in _WHOLE:
        return repr(value)
    for plain in (float, complex):
        if issubclass(kind, plain):
            return plain.__repr__(value)
    if issubclass(kind, int):
        bits = int.bit_length(value)
        return int.__repr__(value) if bits <= 128 else f"an int of {bits} bits"
    for text in (str, bytes):
        if issubclass(kind, text):
            return _text(text, value, _LONGEST_ITEM if nested else _LONGEST)
    if issubclass(kind, type):
        return f"the class {class_name(value)}"
    for sized in _SIZED:
        if issubclass(kind, sized):
            return _items(sized, value, nested)
    return _article(class_name(kind))


def _text(kind, value, most):
    n = kind.__len__(value)
    start = kind.__getitem__(value, slice(0, most))
    return repr(start) if n <= most else f"{start!r}… ({n} long)"


def _items(kind, value, nested):
    n = kind.__len__(value)
    if nested or n > _MOST or kind not in (tuple, list):
        return f"{_article(class_name(type(value)))} of {n}"
    items = ", ".join(shown(item, True) for item in kind.__iter__(value))
    if kind is list:
        return f"[{items}]"
    return f"({items},)" if n == 1 else f"({items})"


def class_name(kind):
    """A type's name, cut; a metaclass cannot replace it."""
    return clipped(type.__dict__["__name__"].__get__(kind), _LONGEST_ITEM)


def _article(name):
    return f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"


def clipped(error, most=400):
    """An error's text, cut."""
    text = str(error)
    return text if len(text) <= most else text[:most] + " …"


def listed(texts, separator=", ", room=1200, most=400):
    """Texts in a row, each cut at `most`, as many as there is room for, and how many more there are."""
    taken = []
    for text in texts:
        taken.append(clipped(text, most))
        room -= len(taken[-1]) + len(separator)
        if room < 0:
            break
    more = f"{separator}and {len(texts) - len(taken)} more" if len(taken) < len(texts) else ""
    return separator.join(taken) + more
