"""Numbers and texts, one after another, as native code reads them (native/runtime/words.h)."""

from array import array
from struct import pack, unpack

from .. import _C
from ..ops.kinds import OPS

#: how an argument or operand begins (native/runtime/literal.h)
_KINDS = {name: k for k, name in enumerate((
    "none", "bool", "int", "float", "complex", "text", "dtype", "device", "format", "list", "register", "weight",
    "outside", "made", "view", "given"))}
_FORMATS = {id(value): name for name, value in vars(_C).items() if isinstance(value, _C.memory_format)}


class Words:
    """A growing list of them.

    >>> from flambeau._graph.words import Words
    >>> words = Words()
    >>> words.numbers([2, 3])
    >>> words.text("sum")
    >>> list(words.all)
    [2, 2, 3, 3, 7173491]
    """

    def __init__(self):
        self.all = array("q")

    def number(self, n):
        """An integer of 64 bits; OverflowError for a larger one."""
        self.all.append(n)

    def real(self, x):
        """A float."""
        self.all.append(unpack("<q", pack("<d", x))[0])

    def text(self, text):
        """A text: its length in bytes, and its bytes in whole words."""
        raw = text.encode()
        self.all.append(len(raw))
        self.all.frombytes(raw + bytes(-len(raw) % 8))

    def dtype(self, dtype):
        """A dtype: the text of its name."""
        self.text(str(dtype).removeprefix("torch."))

    def numbers(self, numbers):
        """How many, and the integers."""
        self.items(numbers, self.number)

    def items(self, items, write):
        """How many, and each as `write` writes it."""
        self.all.append(len(items))
        for item in items:
            write(item)

    def bytes(self):
        """All of it, in the processor's order of bytes, which is that of the library."""
        return self.all.tobytes()


def native_name(op):
    """(the name under which native code knows an operator, whether it is an in-place form of the one of that name)."""
    own = op.name in OPS
    return op.name if own else op.name.removesuffix("_"), not own


class Numbered:
    """What is known by numbers: a register, a weight, a value of a plan; how it begins, and the numbers."""

    __slots__ = ("kind", "numbers")

    def __init__(self, kind, *numbers):
        self.kind, self.numbers = kind, numbers

    @property
    def number(self):
        """The first, or only, one."""
        return self.numbers[0]


def write_operand(words, x):
    """A value that an instruction is given: what Python has, a Numbered, or a list of such.

    NotImplementedError for an object that native code knows nothing of.
    """
    def begin(kind):
        words.number(_KINDS[kind])

    if isinstance(x, Numbered):
        begin(x.kind)
        for number in x.numbers:
            words.number(number)
    elif x is None:
        begin("none")
    elif isinstance(x, bool):
        begin("bool")
        words.number(x)
    elif isinstance(x, int):
        begin("int")
        words.number(x)
    elif isinstance(x, float):
        begin("float")
        words.real(x)
    elif isinstance(x, complex):
        begin("complex")
        words.real(x.real)
        words.real(x.imag)
    elif isinstance(x, str):
        begin("text")
        words.text(x)
    elif isinstance(x, (tuple, list)):
        begin("list")
        words.items(x, lambda item: write_operand(words, item))
    elif isinstance(x, _C.dtype):
        begin("dtype")
        words.dtype(x)
    elif isinstance(x, _C.device) and x.type in ("cpu", "meta"):
        begin("device")
        words.number(x.type == "meta")
    elif id(x) in _FORMATS:
        begin("format")
        words.text(_FORMATS[id(x)])
    else:
        raise NotImplementedError(f"an argument is a {type(x).__name__}")
