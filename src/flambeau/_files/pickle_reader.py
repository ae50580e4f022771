"""Reads a pickle as data: a stack machine that knows the opcodes of containers and numbers and runs no code.

`GLOBAL` only looks a name up in the caller's table; `REDUCE` only calls functions of that table. Every length is
checked against the bytes there are, and what could cost more than the stream's length has a budget in proportion to
it, so that a damaged or hostile stream ends soon, in a PickleError that says where.
"""

from collections import OrderedDict
from itertools import chain
from struct import Struct

from .._shown import clipped, shown


class PickleError(RuntimeError):
    """What is wrong with the stream, and at which byte."""


class Allowed:
    """An entry of the table: a name that may stand in a stream. `call` makes the object of a REDUCE; else `value`.

    `keys` says what of a call's argument becomes keys: its "items", or the first of each of its "pairs".
    """

    __slots__ = ("call", "keys", "value")

    def __init__(self, call=None, value=None, keys=None):
        self.call = call
        self.value = value
        self.keys = keys


class Outside:
    """The base of what a persistent id stands for: an argument of calls, never part of the result."""


_MARK = object()
_I4, _U4, _U8, _U2, _F8 = Struct("<i"), Struct("<I"), Struct("<Q"), Struct("<H"), Struct(">d")

# The budgets of a stream of n bytes are `floor + factor * n`. What writers produce stays far below them: they copy each
# element once or twice, and use a key in two bytes or more.
_WORK = 1 << 20, 16      # steps of hashing and comparing keys
_COPIES = 1 << 16, 4     # elements (or characters) that calls copy from one object into another
_WRITTEN_OUT = 1 << 24, 1000  # length of the result as text, when what is shared is counted at each place
DEPTH = 1000             # of the result; Python's own writers and printers stop near it
KEY_DEPTH = 8
_TWINS = 256             # keys of one hash: a dict compares each new one with all of them
_LONGEST_NAME = 1000
_SCALARS = frozenset({type(None), bool, float})
_LEAVES = _SCALARS | {int, complex, str, bytes}
_SIZED = (str, bytes, bytearray, list, tuple, dict, set, frozenset)


def _budget(bounds, size):
    return bounds[0] + bounds[1] * size


class Reader:
    """One stream. `find(module, name)` gives an Allowed or raises; `persistent(key)` the object kept outside;
    `parts(object)` what an object that is no container refers to.
    """

    def __init__(self, data, find, persistent, parts=lambda value: ()):
        self.data = data
        self.at = 0
        self.find = find
        self.persistent = persistent
        self.parts = parts
        self.stack = []
        self.memo = {}
        self.work = _budget(_WORK, len(data))
        self.copies = _budget(_COPIES, len(data))
        self.twins = {}  # hash -> the different keys that have it, where a file can choose the hash

    def load(self):
        """The object of the stream."""
        data, size, start = self.data, len(self.data), 0
        try:
            while True:
                start = self.at
                if start >= size:
                    raise PickleError("truncated: its end is missing")
                self.at = start + 1
                code = data[start]
                if code == 0x2E:  # STOP
                    if len(self.stack) != 1:
                        raise PickleError("the stream ends with a wrong number of objects")
                    result = self.plain(self.stack[0])
                    check_extent(result, size, self.parts)
                    return result
                _OPCODES[code](self)
        except PickleError as error:
            raise PickleError(f"{clipped(error)} (at byte {start})") from None
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise PickleError(f"damaged: {type(error).__name__}: {clipped(error)} (at byte {start})") from error

    # --- budgets

    def spend(self, steps):
        self.work -= steps
        if self.work < 0:
            raise PickleError(f"its keys cost more work than {len(self.data)} bytes of data can need")

    def copy(self, count):
        self.copies -= count
        if self.copies < 0:
            raise PickleError(f"it copies more elements than {len(self.data)} bytes of data can need")

    def key(self, value, depth=0):
        """Lets `value` become a key: scalars, and shallow tuples and frozensets of them, whose hash costs little."""
        kind = type(value)
        if kind in _SCALARS:
            self.spend(1)
        elif kind is str or kind is bytes:
            self.spend(1 + (len(value) >> 8))
        elif kind is int:
            self.spend(1 + (value.bit_length() >> 8))
            if value.bit_length() > 60:  # up to here an int is its own hash
                self.twin(value)
        elif isinstance(value, (tuple, frozenset)):
            if depth == KEY_DEPTH:
                raise PickleError(f"a key nested more than {KEY_DEPTH} deep")
            self.spend(1 + len(value))
            for item in value:
                self.key(item, depth + 1)
            if depth == 0:
                self.twin(value)
        elif kind.__hash__ is None or issubclass(kind, Outside):
            raise PickleError(f"a key of the unhashable type {kind.__name__}")
        else:
            self.spend(1)
            if kind is complex:
                self.twin(value)

    def twin(self, value):
        """Counts the keys of one hash."""
        twins = self.twins.setdefault(hash(value), [])
        if value not in twins:
            if len(twins) == _TWINS:
                raise PickleError(f"more than {_TWINS} different keys have one hash, which happens only on purpose")
            twins.append(value)

    def keys_of(self, value, what):
        """Lets the items of `value`, or the first of each pair in it, become keys."""
        if isinstance(value, dict):
            return  # its keys were let in before, and their hashes are stored with them
        if not isinstance(value, (list, tuple, set, frozenset)):
            raise PickleError(f"a {type(value).__name__} where a list is expected")
        for item in value:
            if what == "pairs":
                if not isinstance(item, (list, tuple)) or len(item) != 2:
                    raise PickleError(f"{shown(item)} where a pair of key and value is expected")
                item = item[0]
            self.key(item)

    # --- bytes and stack

    def byte(self):
        at = self.at
        if at >= len(self.data):
            raise PickleError("truncated: a byte wanted, none left")
        self.at = at + 1
        return self.data[at]

    def unknown(self):
        raise PickleError(f"opcode {self.data[self.at - 1]:#04x} is not one of plain data")

    def take(self, n):
        end = self.at + n
        if n < 0 or end > len(self.data):
            raise PickleError(f"truncated: {n} bytes wanted, {len(self.data) - self.at} left")
        piece = self.data[self.at:end]
        self.at = end
        return piece

    def number(self, form):
        return form.unpack(self.take(form.size))[0]

    def line(self):
        end = self.data.find(b"\n", self.at, self.at + _LONGEST_NAME)
        if end < 0:
            raise PickleError("truncated: no end of line")
        line = self.data[self.at:end]
        self.at = end + 1
        return line.decode("ascii")

    def push(self, value):
        self.stack.append(value)

    def small(self):
        self.stack.append(self.byte())

    def pop(self):
        if not self.stack or self.stack[-1] is _MARK:
            raise PickleError("an object is missing")
        return self.stack.pop()

    def top(self):
        if not self.stack or self.stack[-1] is _MARK:
            raise PickleError("an object is missing")
        return self.stack[-1]

    def to_mark(self):
        for k in range(len(self.stack) - 1, -1, -1):
            if self.stack[k] is _MARK:
                items = self.stack[k + 1:]
                del self.stack[k:]
                return items
        raise PickleError("a mark is missing")

    def plain(self, value):
        """A table entry used as a value stands for its value."""
        if type(value) is Allowed:
            if value.call is not None and value.value is None:
                raise PickleError("a function is used as data")
            return value.value
        return value

    # --- opcodes

    def text(self, length):
        self.push(self.take(length).decode("utf-8", "surrogatepass"))

    def long(self, length):
        self.push(int.from_bytes(self.take(length), "little", signed=True))

    def tuple_of(self, n):
        items = [self.plain(self.pop()) for _ in range(n)]
        self.push(tuple(reversed(items)))

    def tuple_to_mark(self):
        self.push(tuple(map(self.plain, self.to_mark())))

    def append(self):
        value = self.plain(self.pop())
        self.kind(list).append(value)

    def appends(self):
        items = self.to_mark()
        self.kind(list).extend(map(self.plain, items))

    def kind(self, kind):
        target = self.top()
        if not isinstance(target, kind):
            raise PickleError(f"a {kind.__name__} is expected, got {type(target).__name__}")
        return target

    def setitem(self):
        value, key = self.plain(self.pop()), self.plain(self.pop())
        target = self.kind(dict)
        self.key(key)
        target[key] = value

    def setitems(self):
        items = list(map(self.plain, self.to_mark()))
        if len(items) % 2:
            raise PickleError("a key without a value")
        target = self.kind(dict)
        for key, value in zip(items[::2], items[1::2]):
            self.key(key)
            target[key] = value

    def additems(self):
        items = self.plain_keys()
        self.kind(set).update(items)

    def frozen(self):
        self.push(frozenset(self.plain_keys()))

    def plain_keys(self):
        items = list(map(self.plain, self.to_mark()))
        for item in items:
            self.key(item)
        return items

    def remember(self, number):
        self.memo[number] = self.top()

    def recall(self, number):
        if number not in self.memo:
            raise PickleError(f"nothing was stored under number {number}")
        self.push(self.memo[number])

    def name(self, module, name):
        self.push(self.find(module, name))

    def stack_global(self):
        name, module = self.pop(), self.pop()
        if not isinstance(name, str) or not isinstance(module, str) or len(name) + len(module) > _LONGEST_NAME:
            raise PickleError(f"{shown(module)}, {shown(name)} where a name is expected")
        self.name(module, name)

    def reduce(self):
        args, function = self.pop(), self.pop()
        if type(function) is not Allowed or function.call is None or not isinstance(args, tuple):
            raise PickleError("only objects of the table of allowed calls can be called while loading")
        for value in args:
            if isinstance(value, _SIZED):
                self.copy(len(value))
        if function.keys is not None and args:
            self.keys_of(args[0], function.keys)
        self.push(function.call(*args))

    def build(self):
        state, target = self.plain(self.pop()), self.top()
        if isinstance(state, tuple) and len(state) == 2 and state[1] is None:
            state = state[0]
        if not isinstance(state, dict) or type(target) is not OrderedDict:
            raise PickleError(f"attributes for a {type(target).__name__}")
        self.copy(len(state))
        for key, value in state.items():
            if not isinstance(key, str) or hasattr(OrderedDict, key):
                raise PickleError(f"attribute {shown(key)} of an OrderedDict")
            target.__dict__[key] = value

    def outside(self):
        self.push(self.persistent(self.plain(self.pop())))

    def pop_mark(self):
        self.to_mark()

    def discard(self):
        if not self.stack:
            raise PickleError("an object is missing")
        self.stack.pop()


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
    if isinstance(value, dict):
        attributes = value.__dict__.values() if type(value) is OrderedDict else ()
        return chain(value.values(), attributes)
    if isinstance(value, (list, tuple, set, frozenset)):
        return iter(value)
    if isinstance(value, Outside):
        raise PickleError("a storage that belongs to no tensor")
    return iter(parts(value))


def check_extent(root, size, parts):
    """Refuses what is nested too deeply, or is too long written out for a stream of `size` bytes: to print, copy or
    compare it would never end. Each object is visited once; inside itself it counts as a leaf. `parts(object)`: what
    one that is no container refers to.
    """
    longest = _budget(_WRITTEN_OUT, size)
    measured = {}  # id -> (length, height)
    path = [_Level(root, _inside(root, parts))]
    while path:
        level = path[-1]
        for child in level.rest:
            kind = type(child)
            if kind in _LEAVES:
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


def _protocol(self):
    version = self.byte()
    if version > 5:
        raise PickleError(f"pickle protocol {version}")


_KNOWN = {ord(key) if isinstance(key, str) else key: run for key, run in {
    0x80: _protocol,
    0x95: lambda r: r.take(8),
    "(": lambda r: r.push(_MARK),
    "0": Reader.discard,
    "1": Reader.pop_mark,
    "2": lambda r: r.push(r.top()),
    "N": lambda r: r.push(None),
    0x88: lambda r: r.push(True),
    0x89: lambda r: r.push(False),
    "K": Reader.small,
    "M": lambda r: r.push(r.number(_U2)),
    "J": lambda r: r.push(r.number(_I4)),
    0x8A: lambda r: r.long(r.byte()),
    0x8B: lambda r: r.long(r.number(_I4)),
    "G": lambda r: r.push(r.number(_F8)),
    "X": lambda r: r.text(r.number(_U4)),
    0x8C: lambda r: r.text(r.byte()),
    0x8D: lambda r: r.text(r.number(_U8)),
    "B": lambda r: r.push(bytes(r.take(r.number(_U4)))),
    "C": lambda r: r.push(bytes(r.take(r.byte()))),
    0x8E: lambda r: r.push(bytes(r.take(r.number(_U8)))),
    0x96: lambda r: r.push(bytearray(r.take(r.number(_U8)))),
    "]": lambda r: r.push([]),
    "a": Reader.append,
    "e": Reader.appends,
    ")": lambda r: r.push(()),
    "t": Reader.tuple_to_mark,
    0x85: lambda r: r.tuple_of(1),
    0x86: lambda r: r.tuple_of(2),
    0x87: lambda r: r.tuple_of(3),
    "}": lambda r: r.push({}),
    "s": Reader.setitem,
    "u": Reader.setitems,
    0x8F: lambda r: r.push(set()),
    0x90: Reader.additems,
    0x91: Reader.frozen,
    "q": lambda r: r.remember(r.byte()),
    "r": lambda r: r.remember(r.number(_U4)),
    0x94: lambda r: r.remember(len(r.memo)),
    "h": lambda r: r.recall(r.byte()),
    "j": lambda r: r.recall(r.number(_U4)),
    "c": lambda r: r.name(r.line(), r.line()),
    0x93: Reader.stack_global,
    "R": Reader.reduce,
    "b": Reader.build,
    "Q": Reader.outside,
}.items()}
_OPCODES = [_KNOWN.get(code, Reader.unknown) for code in range(256)]
