"""Nested containers as trees: dict, list, tuple, namedtuple and OrderedDict are nodes, everything else is a leaf."""

from collections import OrderedDict


class TreeSpec:
    """The shape of a tree: what holds its leaves. Two specs are equal when the trees differ in leaves alone."""

    __slots__ = ("children_specs", "context", "num_leaves", "type")

    def __init__(self, kind, context, children):
        self.type, self.context, self.children_specs = kind, context, children
        self.num_leaves = sum(c.num_leaves for c in children) if kind is not None else 1

    def is_leaf(self):
        """Whether the tree is a single leaf."""
        return self.type is None

    def unflatten(self, leaves):
        """The tree of this shape with these leaves."""
        return tree_unflatten(leaves, self)

    def __eq__(self, other):
        return (isinstance(other, TreeSpec) and self.type is other.type and self.context == other.context
                and self.children_specs == other.children_specs)

    def __hash__(self):
        return hash((self.type, self.num_leaves))

    def __repr__(self):
        if self.type is None:
            return "*"
        return f"TreeSpec({self.type.__name__}, {self.context}, {list(self.children_specs)})"


LEAF = TreeSpec(None, None, ())


def is_namedtuple(x):
    """Whether x is a tuple with named fields (those of operators with several results are not)."""
    return isinstance(x, tuple) and hasattr(type(x), "_fields")


#: class -> (flatten: object -> (children, context), unflatten: (children, context) -> object)
_REGISTERED = {}


def register_pytree_node(cls, flatten_fn, unflatten_fn, *, serialized_type_name=None, to_dumpable_context=None,
                         from_dumpable_context=None, flatten_with_keys_fn=None):
    """Makes instances of cls containers: flatten_fn(x) -> (children, context), unflatten_fn(children, context) -> x.

    >>> from flambeau.utils import _pytree
    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> _pytree.register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda children, _: Pair(*children))
    >>> _pytree.tree_leaves(Pair(1, [2, 3]))
    [1, 2, 3]
    """
    if cls in _REGISTERED:
        raise ValueError(f"register_pytree_node: {cls.__name__} has been registered before")
    _REGISTERED[cls] = flatten_fn, unflatten_fn


def _children(tree):
    """(type, context, children) of a container; None for a leaf."""
    kind = type(tree)
    if kind is tuple or kind is list:
        return kind, None, tree
    if kind is dict or kind is OrderedDict:
        return kind, list(tree), list(tree.values())
    if kind in _REGISTERED:
        children, context = _REGISTERED[kind][0](tree)
        return kind, context, list(children)
    if is_namedtuple(tree):
        return kind, None, tree
    if isinstance(tree, tuple) and kind.__module__ == "torch.return_types":
        return kind, None, tree
    return None


def tree_flatten(tree, is_leaf=None):
    """(leaves, spec) of a tree.

    >>> from flambeau.utils import _pytree
    >>> _pytree.tree_flatten({"a": 1, "b": (2, [3])})[0]
    [1, 2, 3]
    """
    leaves = []

    def walk(node):
        found = None if is_leaf is not None and is_leaf(node) else _children(node)
        if found is None:
            leaves.append(node)
            return LEAF
        kind, context, children = found
        return TreeSpec(kind, context, tuple(walk(c) for c in children))

    return leaves, walk(tree)


def tree_leaves(tree, is_leaf=None):
    """The leaves alone."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree, is_leaf=None):
    """The spec alone."""
    return tree_flatten(tree, is_leaf)[1]


def tree_iter(tree, is_leaf=None):
    """An iterator over the leaves."""
    return iter(tree_leaves(tree, is_leaf))


def tree_unflatten(leaves, spec):
    """The tree of that spec with these leaves."""
    leaves = list(leaves)
    if len(leaves) != spec.num_leaves:
        raise ValueError(f"tree_unflatten: expected {spec.num_leaves} leaves, got {len(leaves)}")
    found = iter(leaves)

    def build(s):
        if s.type is None:
            return next(found)
        children = [build(c) for c in s.children_specs]
        if s.type in _REGISTERED:
            return _REGISTERED[s.type][1](children, s.context)
        if s.type in (tuple, list):
            return s.type(children)
        if s.type in (dict, OrderedDict):
            return s.type(zip(s.context, children, strict=True))
        return s.type(*children) if hasattr(s.type, "_fields") else s.type(children)

    return build(spec)


def tree_map(function, tree, *rest, is_leaf=None):
    """The tree with `function` applied to every leaf (and to the leaves at the same place in `rest`).

    >>> from flambeau.utils import _pytree
    >>> _pytree.tree_map(lambda x: 2 * x, {"a": 1, "b": [2, 3]})
    {'a': 2, 'b': [4, 6]}
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    others = []
    for other in rest:
        more, same = tree_flatten(other, is_leaf)
        if same != spec:
            raise ValueError(f"tree_map: the trees differ: {spec} and {same}")
        others.append(more)
    return tree_unflatten([function(*each) for each in zip(leaves, *others, strict=True)], spec)


def tree_map_only(kind, function, tree):
    """The tree with `function` applied to the leaves of type `kind`; the others stay."""
    return tree_map(lambda x: function(x) if isinstance(x, kind) else x, tree)


def tree_map_(function, tree):
    """`function` of every leaf, for what it does; the tree itself."""
    for leaf in tree_leaves(tree):
        function(leaf)
    return tree


def tree_all(predicate, tree):
    """Whether `predicate` holds for every leaf."""
    return all(map(predicate, tree_leaves(tree)))


def tree_any(predicate, tree):
    """Whether `predicate` holds for some leaf."""
    return any(map(predicate, tree_leaves(tree)))


def broadcast_prefix(prefix, tree_spec):
    """The leaves of `prefix`, one for each leaf of the tree: a leaf of the prefix stands for a whole subtree. None
    where the two do not fit."""
    out = []

    def walk(p, s):
        if s.type is None:
            if _children(p) is not None:
                return False
            out.append(p)
            return True
        found = _children(p)
        if found is None:
            out.extend([p] * s.num_leaves)
            return True
        kind, context, children = found
        if kind is not s.type or len(children) != len(s.children_specs):
            return False
        if kind in (dict, OrderedDict):
            if set(context) != set(s.context):
                return False
            children = [p[key] for key in s.context]
        return all(walk(c, cs) for c, cs in zip(children, s.children_specs, strict=True))

    return out if walk(prefix, tree_spec) else None
