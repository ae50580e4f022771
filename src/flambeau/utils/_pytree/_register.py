"""How classes become containers: registered with functions, as dataclasses, as constants, as named tuples."""

import warnings

from ..._shown import shown
from ._nodes import CONSTANTS, SUPPORTED_NODES, ConstantNode, GetAttrKey, NodeDef, is_namedtuple_class

#: serialized name -> class, of namedtuples
NAMED = {}


def register_pytree_node(cls, flatten_fn, unflatten_fn, *, serialized_type_name=None, to_dumpable_context=None,
                         from_dumpable_context=None, flatten_with_keys_fn=None):
    """Makes objects of cls containers: flatten_fn(x) -> (children, context), unflatten_fn(children, context) -> x.

    `flatten_with_keys_fn(x) -> ([(key, child)], context)` gives paths names; `serialized_type_name` is what
    `treespec_dumps` writes, and the two `…_dumpable_context` functions turn a context into what JSON holds, and back.

    >>> from flambeau.utils import _pytree
    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> _pytree.register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda children, _: Pair(*children))
    >>> _pytree.tree_leaves(Pair(1, [2, 3]))
    [1, 2, 3]
    """
    if not isinstance(cls, type):
        raise TypeError(f"register_pytree_node: expected a class, got {shown(cls)}")
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(f"register_pytree_node: {cls.__name__} needs both to_dumpable_context and "
                         "from_dumpable_context, or neither")
    _add(NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn, serialized_type_name, to_dumpable_context,
                 from_dumpable_context))


def _add(node):
    if SUPPORTED_NODES.setdefault(node.type, node) is not node:
        raise ValueError(f"register_pytree_node: {node.type.__name__} has been registered before")


def _register_pytree_node(cls, flatten_fn, unflatten_fn, to_str_fn=None, maybe_from_str_fn=None, **options):
    """`register_pytree_node` by its older name."""
    if to_str_fn is not None or maybe_from_str_fn is not None:
        raise NotImplementedError("_register_pytree_node: to_str_fn and maybe_from_str_fn are not used any more; pass "
                                  "serialized_type_name to register_pytree_node")
    warnings.warn("_register_pytree_node is the older name of register_pytree_node", FutureWarning, stacklevel=2)
    register_pytree_node(cls, flatten_fn, unflatten_fn, **options)


def _deregister_pytree_node(cls):
    """Objects of a class that was registered are leaves again.

    >>> from flambeau.utils import _pytree
    >>> kind = type("Kind", (), {})
    >>> _pytree.register_pytree_node(kind, lambda x: ([1], None), lambda children, context: kind())
    >>> _pytree._deregister_pytree_node(kind)
    >>> len(_pytree.tree_leaves([kind(), 2]))
    2
    """
    if cls not in SUPPORTED_NODES:
        raise ValueError(f"_deregister_pytree_node: {shown(cls)} has not been registered")
    del SUPPORTED_NODES[cls]
    CONSTANTS.pop(cls, None)


def _chosen_fields(cls, field_names, drop_field_names):
    """The names of the fields that are children."""
    known = getattr(cls, "__dataclass_fields__", None)
    if known is None:
        if field_names is None:
            raise ValueError(f"register_dataclass: {shown(cls)} is no dataclass; say in field_names which attributes "
                             "its constructor takes")
        return list(field_names)
    init = [name for name, field in known.items() if field.init]
    if field_names is None:
        return [name for name in init if name not in (drop_field_names or ())]
    missing, unknown = set(init) - {*field_names, *(drop_field_names or ())}, set(field_names) - set(init)
    if missing or unknown:
        raise ValueError(f"register_dataclass: {cls.__name__} is made of the fields {init}, but field_names are "
                         f"{shown(list(field_names))}; name those that are to take their defaults in drop_field_names")
    return list(field_names)


def register_dataclass(cls, *, field_names=None, drop_field_names=None, serialized_type_name=None):
    """Makes objects of a dataclass containers of their fields; fields in `drop_field_names` take their defaults.

    A field that is None is a part of the structure, not a leaf.

    >>> import dataclasses
    >>> from flambeau.utils import _pytree
    >>> @dataclasses.dataclass
    ... class Line:
    ...     a: int
    ...     b: int
    >>> _pytree.register_dataclass(Line)
    >>> _pytree.tree_map(lambda x: 10 * x, Line(1, 2))
    Line(a=10, b=20)
    """
    names = _chosen_fields(cls, field_names, drop_field_names)

    def flatten_with_keys(obj):
        present = [name for name in names if getattr(obj, name) is not None]
        absent = [name for name in names if getattr(obj, name) is None]
        return [(GetAttrKey(name), getattr(obj, name)) for name in present], [present, absent]

    def flatten(obj):
        children, context = flatten_with_keys(obj)
        return [child for _, child in children], context

    def unflatten(children, context):
        return cls(**dict(zip(context[0], children, strict=True)), **dict.fromkeys(context[1]))

    _add(NodeDef(cls, flatten, unflatten, flatten_with_keys, serialized_type_name))


def register_constant(cls):
    """Makes objects of the class constants: no leaves, but a part of the structure that specs compare.

    >>> from flambeau.utils import _pytree
    >>> class Mode(str):
    ...     pass
    >>> _pytree.register_constant(Mode)
    >>> _pytree.tree_leaves([Mode("fast"), 1])
    [1]
    >>> _pytree.tree_structure([Mode("fast")]) == _pytree.tree_structure([Mode("slow")])
    False
    """
    if cls.__eq__ is object.__eq__ or cls.__hash__ in (None, object.__hash__):
        raise TypeError(f"register_constant: specs compare constants, so {cls.__name__} must define __eq__ and "
                        "__hash__ (a dataclass does with frozen=True)")

    def flatten(obj):
        return [], ConstantNode(obj)

    _add(NodeDef(cls, flatten, lambda _, context: context.value, flatten))
    CONSTANTS[cls] = flatten


def _register_namedtuple(cls, *, serialized_type_name):
    """Gives a class of named tuples, which are containers anyway, a name for `treespec_dumps`."""
    if not is_namedtuple_class(cls):
        raise TypeError(f"_register_namedtuple: expected a class of named tuples, got {shown(cls)}")
    if NAMED.setdefault(serialized_type_name, cls) is not cls:
        raise ValueError(f"_register_namedtuple: {shown(serialized_type_name)} is the name of another class")
