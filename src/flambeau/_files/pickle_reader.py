"""Reads a pickle as data: a stack machine that knows the opcodes of containers and numbers and runs no code.

`GLOBAL` only looks a name up in the caller's table; `REDUCE` only calls functions of that table. Every length is
checked against the bytes there are, and what could cost more than the stream's length has a budget in proportion to
it, so that a damaged or hostile stream ends soon, in a PickleError that says where.
"""

from collections import OrderedDict, deque
from struct import Struct

import flambeau

from .._shown import clipped, shown
from .extent import Outside, PickleError, Unknown, check_extent


class Allowed:
    """An entry of the table: a name that may stand in a stream. `call` makes the object of a REDUCE, `new` that of a
    NEWOBJ; where the name itself is used as data, it stands for `value`.

    `keys` says what of a call's argument becomes keys: its "items", or the first of each of its "pairs"; "bare" that
    the call has one argument, which stands in no tuple.
    """

    __slots__ = ("call", "keys", "new", "value")

    def __init__(self, call=None, value=None, keys=None, new=None):
        self.call = call
        self.value = value
        self.keys = keys
        self.new = new


_MARK = object()
_I4, _U4, _U8, _U2, _F8 = Struct("<i"), Struct("<I"), Struct("<Q"), Struct("<H"), Struct(">d")

# The budgets of a stream of n bytes are `floor + factor * n`. What writers produce stays far below them: they copy each
# element once or twice, and use a key in two bytes or more.
_WORK = 1 << 20, 16      # steps of hashing and comparing keys
_COPIES = 1 << 16, 4     # elements (or characters) that calls copy from one object into another
KEY_DEPTH = 8
_TWINS = 256             # keys of one hash: a dict compares each new one with all of them
_LONGEST_NAME = 1000
_HASHED = frozenset({complex, flambeau.dtype, flambeau.device, flambeau.Size, type, range, type(Ellipsis),
                     type(NotImplemented)})
_FEW = frozenset({flambeau.dtype, type, type(Ellipsis), type(NotImplemented)})  # a file cannot choose their hash
_SCALARS = frozenset({type(None), bool, float})
_PUT = (OrderedDict, OrderedDict.__setitem__), (dict, dict.__setitem__), (Unknown, Unknown.put)
_SIZED = (str, bytes, bytearray, list, tuple, dict, set, frozenset)


def _budget(bounds, size):
    return bounds[0] + bounds[1] * size


def _no_state(target, state):
    raise PickleError(f"attributes for a {type(target).__name__}")


class Reader:
    """One stream, from byte `at` of the data on. `find(module, name)` gives an Allowed or raises; `persistent(key)` the
    object kept outside; `parts(object)` what an object that is no container refers to; `restore(object, state)` gives
    an object its attributes.

    Keys of other types than plain data are let in where `hashable(type)`, since their hash is a program.
    """

    def __init__(self, data, find, persistent, parts=lambda value: (), restore=_no_state, hashable=lambda kind: False,
                 encoding="utf-8", at=0):
        self.data = data
        self.at = at
        self.find = find
        self.persistent = persistent
        self.parts = parts
        self.restore = restore
        self.hashable = hashable
        self.encoding = encoding
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
            raise type(error)(f"{clipped(error)} (at byte {start})") from None
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
        elif isinstance(value, (tuple, frozenset)) and kind.__hash__ in (tuple.__hash__, frozenset.__hash__):
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
            if kind not in _HASHED and not self.hashable(kind):
                raise PickleError(f"a key of the type {kind.__name__}, whose hash is a program")
            self.spend(1)
            if kind not in _FEW:
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
        self.extend([self.pop()])

    def appends(self):
        self.extend(self.to_mark())

    def extend(self, items):
        """The list's own methods are called, never those of a subclass."""
        target = self.top()
        kind = next((kind for kind in (list, deque, Unknown) if isinstance(target, kind)), None)
        if kind is None:
            raise PickleError(f"a list is expected, got {type(target).__name__}")
        kind.extend(target, map(self.plain, items))

    def kind(self, kind):
        target = self.top()
        if not isinstance(target, kind):
            name = "set" if kind is set else "dict"
            raise PickleError(f"a {name} is expected, got {type(target).__name__}")
        return target

    def setitem(self):
        value, key = self.pop(), self.pop()
        self.set_pairs([key, value])

    def setitems(self):
        self.set_pairs(self.to_mark())

    def set_pairs(self, items):
        items = list(map(self.plain, items))
        if len(items) % 2:
            raise PickleError("a key without a value")
        target = self.kind((dict, Unknown))
        put = next(put for kind, put in _PUT if isinstance(target, kind))
        for key, value in zip(items[::2], items[1::2]):
            self.key(key)
            put(target, key, value)

    def additems(self):
        items = self.plain_keys()
        set.update(self.kind(set), items)

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
        bare = type(function) is Allowed and function.keys == "bare"
        args = (args,) if bare else args
        if type(function) is not Allowed or function.call is None or not isinstance(args, tuple):
            raise PickleError("only objects of the table of allowed calls can be called while loading")
        for value in args:
            if isinstance(value, _SIZED):
                self.copy(len(value))
        if function.keys is not None and args and not bare:
            self.keys_of(args[0], function.keys)
        self.push(function.call(*args))

    def new(self):
        args, kind = self.pop(), self.pop()
        if type(kind) is not Allowed or kind.new is None or not isinstance(args, tuple):
            raise PickleError("an object of a class that cannot be made without running code")
        self.push(kind.new(*args))

    def new_with_names(self):
        names = self.pop()
        if names != {}:
            raise PickleError("an object made with named arguments")
        self.new()

    def build(self):
        state, target = self.plain(self.pop()), self.top()
        if isinstance(state, _SIZED):
            self.copy(len(state))
        if type(target) is not OrderedDict:
            self.restore(target, state)
            return
        if isinstance(state, tuple) and len(state) == 2 and state[1] is None:
            state = state[0]
        if not isinstance(state, dict):
            raise PickleError("attributes for an OrderedDict that are no dict")
        for key, value in state.items():
            if not isinstance(key, str) or hasattr(OrderedDict, key):
                raise PickleError(f"attribute {shown(key)} of an OrderedDict")
            target.__dict__[key] = value

    def old_text(self, length):
        """A str of Python 2: bytes, or text in the encoding that load was given."""
        piece = bytes(self.take(length))
        self.push(piece if self.encoding == "bytes" else piece.decode(self.encoding))

    def outside(self):
        self.push(self.persistent(self.plain(self.pop())))

    def pop_mark(self):
        self.to_mark()

    def discard(self):
        if not self.stack:
            raise PickleError("an object is missing")
        self.stack.pop()


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
    0x81: Reader.new,
    0x92: Reader.new_with_names,
    "U": lambda r: r.old_text(r.byte()),
    "T": lambda r: r.old_text(r.number(_U4)),
    "Q": Reader.outside,
}.items()}
_OPCODES = [_KNOWN.get(code, Reader.unknown) for code in range(256)]
