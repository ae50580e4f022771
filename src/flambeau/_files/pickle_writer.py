"""Writes plain data as a pickle of protocol 2: which types there are, and the bytes each becomes.

Everything that is not in the table is refused by its place in the object, since nothing else could be read back
without running code.
"""

from collections import Counter, OrderedDict, defaultdict
from struct import pack

from .._shown import clipped, shown
from .pickle_reader import KEY_DEPTH


class Global:
    """A name `module.name` that stands for itself in the stream."""

    __slots__ = ("module", "name")

    def __init__(self, module, name):
        self.module = module
        self.name = name


class Reduce:
    """The result of calling the global `function` with `args` (or, if `new`, of making an object of that class with
    them), then given what to `extend` it with, `items` and `state`. One that is `whole` is not named again before all
    of that is written: readers of TorchScript make the object at its end.
    """

    __slots__ = ("args", "extend", "function", "items", "new", "state", "whole")

    def __init__(self, function, args, items=None, state=None, extend=None, new=False, whole=False):
        self.function = function
        self.args = args
        self.items = items
        self.state = state
        self.extend = extend
        self.new = new
        self.whole = whole


class _Attribute(str):
    """A name on the path to an object that is an attribute's, not a key."""

    __slots__ = ()


class _Place:
    """Where a writer stands; the text is made when somebody reads it."""

    __slots__ = ("writer",)

    def __init__(self, writer):
        self.writer = writer

    def __str__(self):
        return self.writer.place()


class Persistent:
    """An object kept outside the stream, named by the tuple `key`."""

    __slots__ = ("key",)

    def __init__(self, key):
        self.key = key


_FACTORIES = {list: "list", dict: "dict", int: "int", float: "float", set: "set"}
_BATCH = 1000  # entries between two marks, as other writers cut them


def _shallow(key, depth):
    return depth > 0 and all(_shallow(item, depth - 1) for item in key if isinstance(item, (tuple, frozenset)))


class Writer:
    """One stream. `special(obj)` turns what this file does not know into a Global, Reduce or Persistent, or None."""

    def __init__(self, special):
        self.special = special
        self.parts = [b"\x80\x02"]
        self.memo = {}       # id -> number in the reader's memo
        self.globals = {}    # (module, name) -> number
        self.keep = []       # objects whose id is in the memo live as long as it does
        self.path = []       # where we are, for errors
        self.here = _Place(self)

    def dump(self, obj):
        """The bytes of `obj`."""
        self.write(obj)
        self.parts.append(b".")
        return b"".join(self.parts)

    def put(self):
        number = len(self.memo) + len(self.globals)
        self.parts.append(b"q" + bytes([number]) if number < 256 else b"r" + pack("<I", number))
        return number

    def get(self, number):
        self.parts.append(b"h" + bytes([number]) if number < 256 else b"j" + pack("<I", number))

    def remember(self, obj):
        self.memo[id(obj)] = self.put()
        self.keep.append(obj)

    def write(self, obj):
        write = _WRITERS.get(type(obj))
        if write is not None:
            if type(obj) in _UNSHARED:
                write(self, obj)
            elif id(obj) in self.memo:
                self.get(self.memo[id(obj)])
            else:
                write(self, obj)
            return
        if id(obj) in self.memo:
            self.get(self.memo[id(obj)])
            return
        known = self.special(obj, self.here)
        if known is None:
            if "__getstate__" in vars(type(obj)):
                obj.__getstate__()  # a class that refuses to be pickled says why itself
            kind = f"{type(obj).__module__}.{type(obj).__qualname__}"
            hint = "; store its state_dict()" if hasattr(obj, "state_dict") else ""
            raise TypeError(f"{self.place()} is a {kind}, which cannot be stored as data{hint}")
        if type(known) is Reduce:
            self.reduce(known, obj)
        else:
            self.write(known)
            if not isinstance(known, Global):
                self.remember(obj)

    def place(self):
        """Where the object being written stands, as Python text."""
        return clipped("obj" + "".join(f".{clipped(key, 60)}" if type(key) is _Attribute else f"[{shown(key)}]"
                                       for key in self.path))

    def child(self, key, value):
        self.path.append(key)
        self.write(value)
        self.path.pop()

    def members(self, items, first=0):
        """The items of a sequence, of which the first has that index."""
        for i, item in enumerate(items, first):
            leaf = _LEAVES.get(type(item))
            if leaf is None:
                self.child(i, item)
            else:
                leaf(self, item)

    # --- one method per kind

    def none(self, obj):
        self.parts.append(b"N")

    def boolean(self, obj):
        self.parts.append(b"\x88" if obj else b"\x89")

    def integer(self, obj):
        if 0 <= obj < 256:
            self.parts.append(b"K" + bytes([obj]))
        elif 0 <= obj < 65536:
            self.parts.append(b"M" + pack("<H", obj))
        elif -(1 << 31) <= obj < 1 << 31:
            self.parts.append(b"J" + pack("<i", obj))
        else:
            data = obj.to_bytes(obj.bit_length() // 8 + 1, "little", signed=True)
            head = b"\x8a" + bytes([len(data)]) if len(data) < 256 else b"\x8b" + pack("<i", len(data))
            self.parts.append(head + data)

    def real(self, obj):
        self.parts.append(b"G" + pack(">d", obj))

    def text(self, obj):
        """Names of attributes are met again and again: one that was written is referred to."""
        data = obj.encode("utf-8", "surrogatepass")
        if len(data) >= 1 << 32:
            raise TypeError(f"{self.place()} is a str of {len(data)} bytes: too long to be stored")
        self.parts.append(b"X" + pack("<I", len(data)) + data)
        self.remember(obj)

    def binary(self, obj):
        self.write(Reduce(Global("_codecs", "encode"), (obj.decode("latin1"), "latin1")))
        self.remember(obj)

    def tuple(self, obj):
        self.arguments(obj)
        if id(obj) in self.memo:  # it contains itself: what was built on the way is the one to use
            self.parts.append(b"0")
            self.get(self.memo[id(obj)])
        elif obj:
            self.remember(obj)

    def arguments(self, obj):
        """A tuple that nothing else refers to."""
        self.parts.append(b")" if not obj else b"(" if len(obj) > 3 else b"")
        if obj:
            self.members(obj)
            self.parts.append(_TUPLES.get(len(obj), b"t"))

    def list(self, obj):
        self.parts.append(b"]")
        self.remember(obj)
        self.extend(obj)

    def extend(self, obj):
        for start in range(0, len(obj), _BATCH):
            self.parts.append(b"(")
            self.members(obj[start:start + _BATCH], start)
            self.parts.append(b"e")

    def pairs(self, items):
        items = list(items)
        for start in range(0, len(items), _BATCH):
            self.parts.append(b"(")
            for key, value in items[start:start + _BATCH]:
                self.check_key(key)
                self.write(str(key) if type(key) is _Attribute else key)
                self.child(key, value)
            self.parts.append(b"u")

    def check_key(self, key):
        """Refuses a key that could not be read again."""
        if isinstance(key, (tuple, frozenset)) and not _shallow(key, KEY_DEPTH):
            raise TypeError(f"{self.place()} has a key nested more than {KEY_DEPTH} deep, which cannot be stored")

    def dict(self, obj):
        self.parts.append(b"}")
        self.remember(obj)
        self.pairs(obj.items())

    def ordered(self, obj):
        self.write(Reduce(Global("collections", "OrderedDict"), ()))
        self.remember(obj)
        self.pairs(obj.items())
        if obj.__dict__:
            self.path.append("__dict__")
            self.write(dict(obj.__dict__))
            self.path.pop()
            self.parts.append(b"b")

    def counter(self, obj):
        self.write(Reduce(Global("collections", "Counter"), (dict(obj),)))
        self.remember(obj)

    def default(self, obj):
        factory = obj.default_factory
        if factory is not None and factory not in _FACTORIES:
            raise TypeError(f"{self.place()} is a defaultdict whose factory {shown(factory)} cannot be stored as data")
        args = () if factory is None else (Global("__builtin__", _FACTORIES[factory]),)
        self.write(Reduce(Global("collections", "defaultdict"), args))
        self.remember(obj)
        self.pairs(obj.items())

    def set(self, obj):
        for item in obj:
            self.check_key(item)
        self.write(Reduce(Global("__builtin__", type(obj).__name__), (list(obj),)))
        self.remember(obj)

    def bytearray(self, obj):
        self.write(Reduce(Global("__builtin__", "bytearray"), (bytes(obj),)))
        self.remember(obj)

    def complex(self, obj):
        self.write(Reduce(Global("__builtin__", "complex"), (obj.real, obj.imag)))

    def name(self, obj):
        key = (obj.module, obj.name)
        if key in self.globals:
            self.get(self.globals[key])
            return
        self.parts.append(f"c{obj.module}\n{obj.name}\n".encode())
        self.globals[key] = self.put()

    def reduce(self, obj, original=None):
        """What `original` becomes; it may refer to itself in its items and state."""
        self.name(obj.function)
        if type(obj.args) is tuple:
            self.arguments(obj.args)
        else:
            self.write(obj.args)
        self.parts.append(b"\x81" if obj.new else b"R")
        if original is not None:
            self.keep.append(obj)
            if not obj.whole:
                self.remember(original)
        if obj.extend is not None:
            self.extend(list(obj.extend))
        if obj.items is not None:
            self.pairs(obj.items)
        if obj.state is not None:
            self.attributes(obj.state)
            self.parts.append(b"b")
        if original is not None and obj.whole:
            self.remember(original)

    def attributes(self, state):
        if type(state) is not dict:
            self.write(state)
            return
        self.parts.append(b"}")
        self.pairs((_Attribute(name) if type(name) is str else name, value) for name, value in state.items())

    def persistent(self, obj):
        self.arguments(obj.key)
        self.parts.append(b"Q")


_WRITERS = {
    type(None): Writer.none, bool: Writer.boolean, int: Writer.integer, float: Writer.real, complex: Writer.complex,
    str: Writer.text, bytes: Writer.binary, bytearray: Writer.bytearray, tuple: Writer.tuple, list: Writer.list,
    dict: Writer.dict, OrderedDict: Writer.ordered, Counter: Writer.counter, defaultdict: Writer.default,
    set: Writer.set, frozenset: Writer.set, Global: Writer.name, Reduce: Writer.reduce, Persistent: Writer.persistent,
}
_LEAVES = {kind: _WRITERS[kind] for kind in (type(None), bool, int, float)}
_TUPLES = {1: b"\x85", 2: b"\x86", 3: b"\x87"}
_UNSHARED = {type(None), bool, int, float, complex, Global, Reduce, Persistent}
