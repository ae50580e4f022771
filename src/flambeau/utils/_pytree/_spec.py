"""The shape of a tree without its leaves (TreeSpec), how a tree comes apart into both, and is put together again."""

from ..._shown import shown
from ._nodes import DICTIONARIES, SUPPORTED_NODES, node_of


class TreeSpec:
    """The shape of a tree: what holds its leaves. Two specs are equal when the trees differ in leaves alone.

    >>> from flambeau.utils import _pytree
    >>> spec = _pytree.tree_structure({"a": 1, "b": [2, 3]})
    >>> spec.num_leaves, spec.num_children, spec.type, spec.context
    (3, 2, <class 'dict'>, ['a', 'b'])
    >>> spec.unflatten("xyz")
    {'a': 'x', 'b': ['y', 'z']}
    """

    __slots__ = ("children_specs", "context", "num_leaves", "type")

    def __init__(self, type, context, children_specs):
        self.type, self.context, self.children_specs = type, context, tuple(children_specs)
        self.num_leaves = sum(c.num_leaves for c in self.children_specs) if type is not None else 1

    @property
    def num_nodes(self):
        """How many containers and leaves there are."""
        return 1 + sum(c.num_nodes for c in self.children_specs)

    @property
    def num_children(self):
        """How many children the outermost container has."""
        return len(self.children_specs)

    def children(self):
        """The specs of the children."""
        return list(self.children_specs)

    def child(self, index):
        """The spec of one child."""
        return self.children_specs[index]

    def is_leaf(self):
        """Whether the tree is a single leaf."""
        return self.type is None

    def unflatten(self, leaves):
        """The tree of this shape with these leaves."""
        return tree_unflatten(leaves, self)

    def flatten_up_to(self, tree):
        """What a tree that begins with this shape has where this shape has its leaves.

        >>> from flambeau.utils import _pytree
        >>> _pytree.tree_structure([0, (0, 0)]).flatten_up_to([1, ({"a": 2}, 3)])
        [1, {'a': 2}, 3]
        """
        found = []
        _up_to(self, tree, found)
        return found

    def __eq__(self, other):
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (self.type is other.type and self.context == other.context
                and self.children_specs == other.children_specs)

    def __hash__(self):
        return hash((self.type, self.num_leaves))

    def __repr__(self):
        return self._text(0)

    def _text(self, indent):
        if self.type is None:
            return "*"
        inner = f",\n{' ' * (indent + 2)}".join(c._text(indent + 2) for c in self.children_specs)
        return f"TreeSpec({self.type.__name__}, {self.context}, [{inner}])"


class LeafSpec(TreeSpec):
    """The spec of a single leaf.

    >>> from flambeau.utils import _pytree
    >>> _pytree.LeafSpec() == _pytree.tree_structure(1)
    True
    """

    __slots__ = ()

    def __init__(self):
        super().__init__(None, None, ())


LEAF = LeafSpec()


def _up_to(spec, tree, found):
    if spec.type is None:
        found.append(tree)
        return
    for child, below in zip(spec.children_specs, _children_as(spec, tree), strict=True):
        _up_to(child, below, found)


def _children_as(spec, tree):
    """The children of a tree in the order of a spec that it must fit."""
    node = node_of(tree)
    kind = None if node is None else node.type
    dictionary = spec.type in DICTIONARIES and kind in DICTIONARIES
    if kind is not spec.type and not dictionary:
        raise ValueError(f"the trees differ: one has a {spec.type.__name__} where the other has {shown(tree)}")
    children, context = node.flatten_fn(tree)
    children = list(children)
    if len(children) != len(spec.children_specs):
        raise ValueError(f"the trees differ: a {spec.type.__name__} has {len(spec.children_specs)} children in one and "
                         f"{len(children)} in the other ({shown(tree)})")
    if dictionary:
        keys = DICTIONARIES[spec.type](spec.context)
        if set(keys) != set(tree):
            raise ValueError(f"the trees differ: a dictionary has the keys {shown(keys)} in one and "
                             f"{shown(list(tree))} in the other")
        return [tree[key] for key in keys]
    if context != spec.context and kind.__name__ != "deque":
        raise ValueError(f"the trees differ: the context of a {spec.type.__name__} is {shown(spec.context)} in one and "
                         f"{shown(context)} in the other")
    return children


def tree_is_leaf(tree, is_leaf=None):
    """Whether something is a leaf.

    >>> from flambeau.utils import _pytree
    >>> _pytree.tree_is_leaf(1), _pytree.tree_is_leaf([1]), _pytree.tree_is_leaf([1], is_leaf=lambda x: len(x) == 1)
    (True, False, True)
    """
    return bool(is_leaf is not None and is_leaf(tree)) or node_of(tree) is None


def tree_flatten(tree, is_leaf=None):
    """(leaves, spec) of a tree; what `is_leaf` accepts is a leaf whatever its type.

    >>> from flambeau.utils import _pytree
    >>> _pytree.tree_flatten({"a": 1, "b": (2, [3])})[0]
    [1, 2, 3]
    """
    leaves = []

    def walk(node):
        found = None if is_leaf is not None and is_leaf(node) else node_of(node)
        if found is None:
            leaves.append(node)
            return LEAF
        children, context = found.flatten_fn(node)
        return TreeSpec(found.type, context, [walk(c) for c in children])

    return leaves, walk(tree)


def tree_leaves(tree, is_leaf=None):
    """The leaves alone.

    >>> from flambeau.utils import _pytree
    >>> _pytree.tree_leaves([1, None, {"a": 2}])
    [1, None, 2]
    """
    return list(tree_iter(tree, is_leaf))


def tree_structure(tree, is_leaf=None):
    """The spec alone.

    >>> from flambeau.utils import _pytree
    >>> _pytree.tree_structure((1, 2))
    TreeSpec(tuple, None, [*,
      *])
    """
    return tree_flatten(tree, is_leaf)[1]


def tree_iter(tree, is_leaf=None):
    """An iterator over the leaves.

    >>> from flambeau.utils import _pytree
    >>> next(_pytree.tree_iter([[1], 2]))
    1
    """
    found = None if is_leaf is not None and is_leaf(tree) else node_of(tree)
    if found is None:
        yield tree
    else:
        for child in found.flatten_fn(tree)[0]:
            yield from tree_iter(child, is_leaf)


def _with_paths(tree, is_leaf, path=()):
    found = None if is_leaf is not None and is_leaf(tree) else node_of(tree)
    if found is None:
        yield path, tree
        return
    if found.flatten_with_keys_fn is None:
        raise ValueError(f"paths into a {found.type.__name__} have no names: pass flatten_with_keys_fn where it is "
                         "registered")
    for key, child in found.flatten_with_keys_fn(tree)[0]:
        yield from _with_paths(child, is_leaf, (*path, key))


def tree_leaves_with_path(tree, is_leaf=None):
    """[(path, leaf)]: a path is a tuple of SequenceKey, MappingKey and GetAttrKey.

    >>> from flambeau.utils import _pytree
    >>> _pytree.tree_leaves_with_path({"a": [5]})
    [((MappingKey(key='a'), SequenceKey(idx=0)), 5)]
    """
    return list(_with_paths(tree, is_leaf))


def tree_flatten_with_path(tree, is_leaf=None):
    """([(path, leaf)], spec).

    >>> from flambeau.utils import _pytree
    >>> _pytree.tree_flatten_with_path([5])
    ([((SequenceKey(idx=0),), 5)], TreeSpec(list, None, [*]))
    """
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_unflatten(leaves, treespec):
    """The tree of that spec with these leaves.

    >>> from flambeau.utils import _pytree
    >>> _pytree.tree_unflatten([1, 2], _pytree.tree_structure({"a": 0, "b": (0,)}))
    {'a': 1, 'b': (2,)}
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"tree_unflatten: expected a TreeSpec, got {shown(treespec)}")
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten: expected {treespec.num_leaves} leaves, got {len(leaves)}")
    found = iter(leaves)

    def build(s):
        if s.type is None:
            return next(found)
        return SUPPORTED_NODES[s.type].unflatten_fn([build(c) for c in s.children_specs], s.context)

    return build(treespec)


def broadcast_prefix(tree, treespec, is_leaf=None):
    """The leaves of `tree`, one for each leaf of the spec: a leaf of the tree stands for a whole subtree. None where
    the two do not fit.

    >>> from flambeau.utils import _pytree
    >>> _pytree.broadcast_prefix((0, None), _pytree.tree_structure((1, [2, 3])))
    [0, None, None]
    """
    out = []

    def walk(p, s):
        found = None if is_leaf is not None and is_leaf(p) else node_of(p)
        if found is None:
            out.extend([p] * s.num_leaves)
            return True
        if s.type is None or found.type is not s.type:
            return False
        children, context = found.flatten_fn(p)
        if len(children) != len(s.children_specs):
            return False
        if s.type in DICTIONARIES:
            keys = DICTIONARIES[s.type](s.context)
            if set(DICTIONARIES[s.type](context)) != set(keys):
                return False
            children = [p[key] for key in keys]
        return all(walk(c, cs) for c, cs in zip(children, s.children_specs, strict=True))

    return out if walk(tree, treespec) else None


def treespec_leaf():
    """The spec of a single leaf.

    >>> from flambeau.utils import _pytree
    >>> _pytree.treespec_leaf()
    *
    """
    return LEAF


def treespec_tuple(iterable=(), /):
    """The spec of a tuple of trees with these specs.

    >>> from flambeau.utils import _pytree
    >>> _pytree.treespec_tuple([_pytree.treespec_leaf()] * 2) == _pytree.tree_structure((1, 2))
    True
    """
    return TreeSpec(tuple, None, iterable)


def treespec_dict(mapping=(), /, **kwargs):
    """The spec of a dictionary of trees with these specs.

    >>> from flambeau.utils import _pytree
    >>> _pytree.treespec_dict(a=_pytree.treespec_leaf()) == _pytree.tree_structure({"a": 1})
    True
    """
    given = dict(mapping, **kwargs)
    return TreeSpec(dict, list(given), given.values())
