"""Reads a pickle as data: a stack machine that knows the opcodes of containers and numbers and runs no code.

`GLOBAL` only looks a name up in the caller's table; `REDUCE` only calls functions of that table. Every length is
checked against the bytes there are, so that a damaged or hostile stream ends in a PickleError that says where.
"""

from collections import OrderedDict
from struct import Struct


class PickleError(RuntimeError):
    """What is wrong with the stream, and at which byte."""


class Allowed:
    """An entry of the table: a name that may stand in a stream. `call` makes the object of a REDUCE; else `value`."""

    __slots__ = ("call", "value")

    def __init__(self, call=None, value=None):
        self.call = call
        self.value = value


_MARK = object()
_I4, _U4, _U8, _U2, _F8 = Struct("<i"), Struct("<I"), Struct("<Q"), Struct("<H"), Struct(">d")


class Reader:
    """One stream. `find(module, name)` gives an Allowed or raises; `persistent(key)` the object kept outside."""

    def __init__(self, data, find, persistent):
        self.data = data
        self.at = 0
        self.find = find
        self.persistent = persistent
        self.stack = []
        self.memo = {}

    def load(self):
        """The object of the stream."""
        start = 0
        try:
            while True:
                start = self.at
                code = self.take(1)[0]
                if code == 0x2E:  # STOP
                    if len(self.stack) != 1:
                        raise PickleError("the stream ends with a wrong number of objects")
                    return self.plain(self.stack[0])
                run = _OPCODES.get(code)
                if run is None:
                    raise PickleError(f"opcode {code:#04x} is not one of plain data")
                run(self)
        except PickleError as error:
            raise PickleError(f"{error} (at byte {start})") from None
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise PickleError(f"damaged: {type(error).__name__}: {error} (at byte {start})") from error

    # --- bytes and stack

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
        end = self.data.find(b"\n", self.at, self.at + 1000)
        if end < 0:
            raise PickleError("truncated: no end of line")
        line = self.data[self.at:end]
        self.at = end + 1
        return line.decode("ascii")

    def push(self, value):
        self.stack.append(value)

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
        self.kind(dict)[key] = value

    def setitems(self):
        items = list(map(self.plain, self.to_mark()))
        if len(items) % 2:
            raise PickleError("a key without a value")
        target = self.kind(dict)
        for key, value in zip(items[::2], items[1::2]):
            target[key] = value

    def additems(self):
        items = self.to_mark()
        self.kind(set).update(map(self.plain, items))

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
        if not isinstance(name, str) or not isinstance(module, str):
            raise PickleError("a name is expected")
        self.name(module, name)

    def reduce(self):
        args, function = self.pop(), self.pop()
        if type(function) is not Allowed or function.call is None or not isinstance(args, tuple):
            raise PickleError("a call of something that is not in the table")
        self.push(function.call(*args))

    def build(self):
        state, target = self.plain(self.pop()), self.top()
        if isinstance(state, tuple) and len(state) == 2 and state[1] is None:
            state = state[0]
        if not isinstance(state, dict) or type(target) is not OrderedDict:
            raise PickleError(f"attributes for a {type(target).__name__}")
        for key, value in state.items():
            if not isinstance(key, str) or hasattr(OrderedDict, key):
                raise PickleError(f"attribute {key!r} of an OrderedDict")
            target.__dict__[key] = value

    def outside(self):
        self.push(self.persistent(self.plain(self.pop())))

    def pop_mark(self):
        self.to_mark()

    def discard(self):
        if not self.stack:
            raise PickleError("an object is missing")
        self.stack.pop()


def _protocol(self):
    version = self.take(1)[0]
    if version > 5:
        raise PickleError(f"pickle protocol {version}")


_OPCODES = {ord(key) if isinstance(key, str) else key: run for key, run in {
    0x80: _protocol,
    0x95: lambda r: r.take(8),
    "(": lambda r: r.push(_MARK),
    "0": Reader.discard,
    "1": Reader.pop_mark,
    "2": lambda r: r.push(r.top()),
    "N": lambda r: r.push(None),
    0x88: lambda r: r.push(True),
    0x89: lambda r: r.push(False),
    "K": lambda r: r.push(r.take(1)[0]),
    "M": lambda r: r.push(r.number(_U2)),
    "J": lambda r: r.push(r.number(_I4)),
    0x8A: lambda r: r.long(r.take(1)[0]),
    0x8B: lambda r: r.long(r.number(_I4)),
    "G": lambda r: r.push(r.number(_F8)),
    "X": lambda r: r.text(r.number(_U4)),
    0x8C: lambda r: r.text(r.take(1)[0]),
    0x8D: lambda r: r.text(r.number(_U8)),
    "B": lambda r: r.push(bytes(r.take(r.number(_U4)))),
    "C": lambda r: r.push(bytes(r.take(r.take(1)[0]))),
    0x8E: lambda r: r.push(bytes(r.take(r.number(_U8)))),
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
    0x91: lambda r: r.push(frozenset(map(r.plain, r.to_mark()))),
    "q": lambda r: r.remember(r.take(1)[0]),
    "r": lambda r: r.remember(r.number(_U4)),
    0x94: lambda r: r.remember(len(r.memo)),
    "h": lambda r: r.recall(r.take(1)[0]),
    "j": lambda r: r.recall(r.number(_U4)),
    "c": lambda r: r.name(r.line(), r.line()),
    0x93: Reader.stack_global,
    "R": Reader.reduce,
    "b": Reader.build,
    "Q": Reader.outside,
}.items()}
