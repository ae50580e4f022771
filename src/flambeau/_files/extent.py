"""Refuses objects that are nested too deeply, or too long written out, for the stream they come from or go into."""

from collections import OrderedDict, deque
from itertools import chain


class PickleError(RuntimeError):
    """What is wrong with the stream, and at which byte."""


class Outside:
    """The base of what a persistent id stands for: an argument of calls, never part of the result."""


class Unknown:
    """Stands for an object that cannot be made, where a file is only looked at: a name, and what it got."""

    __slots__ = ("args", "items", "name", "pairs", "state")

    def __init__(self, name, args=()):
        self.name, self.args, self.state, self.items, self.pairs = name, args, None, [], []

    def extend(self, items):
        self.items.extend(items)

    def put(self, key, value):
        self.pairs.append((key, value))

    def parts(self):
        """What it was given, as one tuple."""
        return self.args, self.state, self.items, self.pairs


DEPTH = 1000             # of the result; Python's own writers and printers stop near it
LEAVES = frozenset({type(None), bool, float, int, complex, str, bytes})
_WRITTEN_OUT = 1 << 24, 1000  # length of the result as text, when what is shared is counted at each place


class _Level:
    """A container on the path of `check_extent`: what is left of it, and its length and height so far."""

    __slots__ = ("height", "length", "rest", "value")

    def __init__(self, value, rest):
        self.value = value
        self.rest = rest
        self.length = 1
        self.height = 0

    def add(self, length, height):
        self.length += length
        self.height = max(self.height, height + 1)


def _inside(value, parts):
    """What a value consists of, without calling methods of a subclass."""
    if isinstance(value, dict):
        inner = dict.values(value)
        if type(value) is OrderedDict:
            return chain(inner, value.__dict__.values())
        return iter(inner) if type(value) is dict else chain(inner, parts(value))  # goes on where it was left
    for kind in (list, tuple, set, frozenset, deque):
        if isinstance(value, kind):
            return kind.__iter__(value) if type(value) is kind else chain(kind.__iter__(value), parts(value))
    if isinstance(value, Outside):
        raise PickleError("a storage that belongs to no tensor")
    return iter(parts(value))


def check_extent(root, size, parts):
    """Refuses what is nested too deeply, or is too long written out for a stream of `size` bytes: to print, copy or
    compare it would never end. Each object is visited once; inside itself it counts as a leaf. `parts(object)`: what
    one that is no container refers to.
    """
    longest = _WRITTEN_OUT[0] + _WRITTEN_OUT[1] * size
    measured = {}  # id -> (length, height)
    path = [_Level(root, _inside(root, parts))]
    while path:
        level = path[-1]
        for child in level.rest:
            kind = type(child)
            if kind in LEAVES:
                level.length += len(child) if kind is str or kind is bytes else 1
            elif id(child) in measured:
                level.add(*measured[id(child)])
            else:
                measured[id(child)] = 1, 0
                path.append(_Level(child, _inside(child, parts)))
                break
        else:
            measured[id(level.value)] = level.length, level.height
            path.pop()
            if path:
                path[-1].add(level.length, level.height)
        if level.length > longest:
            raise PickleError("its parts refer to each other so often that, written out, it would be endless")
        if max(len(path), level.height) > DEPTH:
            raise PickleError(f"it is nested more than {DEPTH} deep")
