"""FunctionSchema: what programs ask of an operator's signature, by PyTorch's names."""

import ast
import re

from ..ops._describe import split
from ._schema import parse

_GENERIC = re.compile(r"(.*)\[(\d*)\]$")
#: words of schemas -> of types
_PLAIN = {"Scalar": "number", "SymInt": "int", "ScalarType": "int", "Layout": "int", "MemoryFormat": "int"}


class AliasInfo:
    """Which memory an argument shares: `before_set` and `after_set` are its letters, `is_write` whether it is changed.
    """

    def __init__(self, letters, is_write):
        self.before_set = self.after_set = letters
        self.is_write = is_write


class FunctionArgument:
    """An argument, or a result, of a FunctionSchema; `type` is text, as TorchScript writes it."""

    def __init__(self, word, name, default=None, kwarg_only=False):
        found = re.match(r"(?P<plain>[\w.]+)(?:\((?P<set>[^)!]*)(?P<write>!?)[^)]*\))?(?P<rest>.*)", word)
        self.name, self.kwarg_only, self._default = name, kwarg_only, default
        self.is_write, letters = bool(found["write"]), found["set"]
        self.alias_info = None if letters is None else AliasInfo(set(letters.split("|")), self.is_write)
        self.is_out = self.is_write and kwarg_only
        count = re.search(r"\[(\d+)\]", found["rest"])
        self.N = int(count[1]) if count else None
        self.type = _typed(found["plain"] + found["rest"], _PLAIN)
        self.real_type = _typed(found["plain"] + found["rest"], {"Scalar": "number"})

    def has_default_value(self):
        """Whether it may be left out."""
        return self._default is not None

    @property
    def default_value(self):
        """Its value where it is left out."""
        if self._default is None:
            return None
        try:
            return ast.literal_eval(self._default)
        except (ValueError, SyntaxError):  # a word, such as contiguous_format
            return self._default

    def __repr__(self):
        return f"{self.type} {self.name}"


def _typed(word, plain):
    """`int[2]?` as `Optional[List[int]]`."""
    if word.endswith("?"):
        return f"Optional[{_typed(word[:-1], plain)}]"
    found = _GENERIC.match(word)
    return f"List[{_typed(found[1], plain)}]" if found else plain.get(word, word)


class FunctionSchema:
    """A schema with what programs ask of it.

    >>> import flambeau
    >>> schema = flambeau.parse_schema("aten::foo.Tensor(Tensor(a!) self, int[2] x=[1, 2]) -> Tensor(a!)")
    >>> schema.name, schema.overload_name, schema.is_mutable
    ('aten::foo', 'Tensor', True)
    >>> [(a.name, a.type, a.default_value) for a in schema.arguments]
    [('self', 'Tensor', None), ('x', 'List[int]', [1, 2])]
    """

    def __init__(self, text):
        plain = parse(text)
        name, _, overload = plain.name.partition(".")
        head, _, tail = plain.text.rpartition("->")
        tail = tail.strip()
        results = split(tail[1:-1]) if tail.startswith("(") else [tail]
        self.text, self.name, self.overload_name = plain.text, name, overload
        self.arguments = list(_arguments(head[head.index("(") + 1:head.rindex(")")]))
        self.returns = [FunctionArgument(*_named(each)) for each in results]

    @property
    def is_mutable(self):
        """Whether it writes into an argument."""
        return any(a.is_write for a in self.arguments)

    def __eq__(self, other):
        return isinstance(other, FunctionSchema) and self.text == other.text

    def __hash__(self):
        return hash(self.text)

    def __repr__(self):
        return self.text


def _named(word):
    kind, _, name = word.rpartition(" ") if " " in word else (word, "", "")
    return kind.strip(), name


def _arguments(text):
    keyword = False
    for part in split(text):
        if part == "*":
            keyword = True
            continue
        declared, _, default = part.partition("=")
        kind, _, name = declared.strip().rpartition(" ")
        yield FunctionArgument(kind, name, default.strip() or None, keyword)


def parse_schema(schema, allow_typevars=True):
    """The FunctionSchema of a text; letters for types are always allowed, as `t` in "(t x) -> t"."""
    if not allow_typevars and re.search(r"[(,]\s*t[\d]?\s", schema):
        raise RuntimeError(f"parse_schema: {schema} has letters for types, and allow_typevars is False")
    return FunctionSchema(schema)
