"""What a container is: how objects of each type come apart, are put together, and what their places are called."""

from collections import OrderedDict, defaultdict, deque, namedtuple


class _Key:
    """One step from a container to a child: its only attribute says which."""

    __slots__ = ("_value",)

    def __init__(self, value):
        self._value = value

    def __eq__(self, other):
        return type(other) is type(self) and other._value == self._value

    def __hash__(self):
        return hash((type(self).__name__, self._value))

    def __repr__(self):
        return f"{type(self).__name__}({self._field}={self._value!r})"


class SequenceKey(_Key):
    """The child at a position of a tuple, list or deque.

    >>> from flambeau.utils._pytree import SequenceKey
    >>> str(SequenceKey(1)), SequenceKey(1).get("abc")
    ('[1]', 'b')
    """

    __slots__ = ()
    _field = "idx"

    def __init__(self, idx):
        super().__init__(idx)

    @property
    def idx(self):
        """The position."""
        return self._value

    def __str__(self):
        return f"[{self._value!r}]"

    def get(self, sequence):
        """The child of that container."""
        return sequence[self._value]


class MappingKey(_Key):
    """The child under a key of a dictionary.

    >>> from flambeau.utils._pytree import MappingKey
    >>> str(MappingKey("a")), MappingKey("a").get({"a": 1})
    ("['a']", 1)
    """

    __slots__ = ()
    _field = "key"

    def __init__(self, key):
        super().__init__(key)

    @property
    def key(self):
        """The key."""
        return self._value

    def __str__(self):
        return f"[{self._value!r}]"

    def get(self, mapping):
        """The child of that container."""
        return mapping[self._value]


class GetAttrKey(_Key):
    """The child that is an attribute: of a namedtuple, a dataclass, or an object of a registered class.

    >>> from flambeau.utils._pytree import GetAttrKey
    >>> str(GetAttrKey("real")), GetAttrKey("real").get(3 + 4j)
    ('.real', 3.0)
    """

    __slots__ = ()
    _field = "name"

    def __init__(self, name):
        super().__init__(name)

    @property
    def name(self):
        """The attribute's name."""
        return self._value

    def __str__(self):
        return f".{self._value}"

    def get(self, obj):
        """The child of that container."""
        return getattr(obj, self._value)


def keystr(kp):
    """A path of keys as it is written in a program.

    >>> from flambeau.utils import _pytree
    >>> [_pytree.keystr(path) for path, _ in _pytree.tree_leaves_with_path({"a": [1, 2]})]
    ["['a'][0]", "['a'][1]"]
    """
    return "".join(str(key) for key in kp)


def key_get(obj, kp):
    """What lies at the end of a path of keys.

    >>> from flambeau.utils import _pytree
    >>> _pytree.key_get({"a": [1, 2]}, (_pytree.MappingKey("a"), _pytree.SequenceKey(1)))
    2
    """
    for key in kp:
        obj = key.get(obj)
    return obj


class NodeDef:
    """How objects of a type come apart (`flatten_fn`), are put together, what their places and the type are called."""

    __slots__ = ("dump", "flatten_fn", "flatten_with_keys_fn", "load", "name", "type", "unflatten_fn")

    def __init__(self, kind, flatten_fn, unflatten_fn, flatten_with_keys_fn=None, name=None, dump=None, load=None):
        self.type, self.flatten_fn, self.unflatten_fn = kind, flatten_fn, unflatten_fn
        self.flatten_with_keys_fn, self.name, self.dump, self.load = flatten_with_keys_fn, name, dump, load


class ConstantNode:
    """What a constant's spec holds: the constant itself."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, ConstantNode) and other.value == self.value

    def __hash__(self):
        return hash(self.value)

    def __repr__(self):
        return f"ConstantNode(value={self.value!r})"


#: the functions that take a constant apart: how it is told from other nodes
CONSTANTS = {}
#: type -> NodeDef; all namedtuples go by the function `namedtuple`, except those that are registered themselves
SUPPORTED_NODES = {}


def _keyed(flatten, keys):
    """The function that also gives each child its key."""
    def flatten_with_keys(tree):
        children, context = flatten(tree)
        return list(zip(keys(tree), children, strict=True)), context
    return flatten_with_keys


def _positions(tree):
    return [SequenceKey(k) for k in range(len(tree))]


def _mapping_keys(tree):
    return [MappingKey(key) for key in tree]


def _fields(tree):
    return [GetAttrKey(name) for name in tree._fields]


def _sequence(tree):
    return tree, None


def _mapping(tree):
    return list(tree.values()), list(tree)


def _default_mapping(tree):
    return list(tree.values()), [tree.default_factory, list(tree)]


def _add(kind, flatten, unflatten, keys, name, dump=None, load=None):
    SUPPORTED_NODES[kind] = NodeDef(kind, flatten, unflatten, _keyed(flatten, keys), name, dump, load)


def sequence_node(kind, name=None):
    """The NodeDef of a class that is made of an iterable of its elements."""
    return NodeDef(kind, _sequence, lambda children, _: kind(children), _keyed(_sequence, _positions), name)


#: keys in the order of the context, which also says how each of the three kinds of dictionary is made
DICTIONARIES = {dict: lambda context: context, OrderedDict: lambda context: context,
                defaultdict: lambda context: context[1]}

SUPPORTED_NODES[tuple] = sequence_node(tuple, "builtins.tuple")
SUPPORTED_NODES[list] = sequence_node(list, "builtins.list")
_add(dict, _mapping, lambda children, keys: dict(zip(keys, children, strict=True)), _mapping_keys, "builtins.dict")
_add(OrderedDict, _mapping, lambda children, keys: OrderedDict(zip(keys, children, strict=True)), _mapping_keys,
     "collections.OrderedDict")
_add(deque, lambda tree: (list(tree), tree.maxlen), lambda children, maxlen: deque(children, maxlen=maxlen),
     _positions, "collections.deque")
_add(defaultdict, _default_mapping,
     lambda children, context: defaultdict(context[0], zip(context[1], children, strict=True)), _mapping_keys,
     "collections.defaultdict")
_add(namedtuple, lambda tree: (list(tree), type(tree)), lambda children, cls: cls(*children), _fields,
     "collections.namedtuple")


def node_of(tree):
    """The NodeDef of a container; None for a leaf."""
    kind = type(tree)
    found = SUPPORTED_NODES.get(kind)
    if found is not None:
        return found
    if issubclass(kind, tuple):
        if kind.__module__ == "torch.return_types":
            return SUPPORTED_NODES.setdefault(kind, sequence_node(kind))
        if kind.__module__ == "flambeau" and kind.__qualname__ == "Size":
            return SUPPORTED_NODES.setdefault(kind, sequence_node(kind, "torch.Size"))
        if is_namedtuple_class(kind):
            return SUPPORTED_NODES[namedtuple]
    return None


def _get_node_type(tree):
    """The type under which a container is registered; that of a leaf is its own."""
    found = node_of(tree)
    return type(tree) if found is None else found.type


def is_constant_class(cls):
    """Whether objects of the class are constants: a part of the structure, without leaves.

    >>> from flambeau.utils import _pytree
    >>> _pytree.is_constant_class(int)
    False
    """
    return cls in CONSTANTS


def is_namedtuple_class(cls):
    """Whether a class is a tuple with named fields (those of operators with several results are not).

    >>> from collections import namedtuple
    >>> from flambeau.utils import _pytree
    >>> _pytree.is_namedtuple_class(namedtuple("Pair", "a b")), _pytree.is_namedtuple_class(tuple)
    (True, False)
    """
    fields = getattr(cls, "_fields", None)
    return (isinstance(cls, type) and issubclass(cls, tuple) and isinstance(fields, tuple)
            and all(type(field) is str for field in fields))


def is_namedtuple_instance(obj):
    """Whether an object is a tuple with named fields.

    >>> from collections import namedtuple
    >>> from flambeau.utils import _pytree
    >>> _pytree.is_namedtuple_instance(namedtuple("Pair", "a b")(1, 2))
    True
    """
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj):
    """Whether an object, or a class, is a tuple with named fields.

    >>> from collections import namedtuple
    >>> from flambeau.utils import _pytree
    >>> Pair = namedtuple("Pair", "a b")
    >>> _pytree.is_namedtuple(Pair), _pytree.is_namedtuple(Pair(1, 2)), _pytree.is_namedtuple((1, 2))
    (True, True, False)
    """
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls):
    """Whether a class is a tuple with fields that native code made, as `time.struct_time` or the type of max(x, 0).

    >>> import time
    >>> from flambeau.utils import _pytree
    >>> _pytree.is_structseq_class(time.struct_time), _pytree.is_structseq_class(tuple)
    (True, False)
    """
    counts = ("n_fields", "n_sequence_fields", "n_unnamed_fields")
    return (isinstance(cls, type) and cls.__bases__ == (tuple,)
            and all(isinstance(getattr(cls, name, None), int) for name in counts))


def is_structseq_instance(obj):
    """Whether an object is a tuple with fields that native code made.

    >>> import time
    >>> from flambeau.utils import _pytree
    >>> _pytree.is_structseq_instance(time.gmtime(0))
    True
    """
    return is_structseq_class(type(obj))


def is_structseq(obj):
    """Whether an object, or a class, is a tuple with fields that native code made.

    >>> import time
    >>> from flambeau.utils import _pytree
    >>> _pytree.is_structseq(time.gmtime(0)), _pytree.is_structseq(time.struct_time), _pytree.is_structseq((1,))
    (True, True, False)
    """
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))
