"""Functions of every leaf: mapped over one tree or several, over leaves of some types only, or with their paths."""

from ..._shown import shown
from ._spec import tree_flatten, tree_iter, tree_leaves, tree_leaves_with_path, tree_unflatten


def _columns(tree, rests, is_leaf):
    """(one list of leaves per tree, spec)."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return [leaves, *(spec.flatten_up_to(rest) for rest in rests)], spec


def tree_map(func, tree, *rests, is_leaf=None):
    """The tree with `func` applied to every leaf, and to what the trees in `rests` have at the same place.

    >>> from flambeau.utils import _pytree
    >>> _pytree.tree_map(lambda x: 2 * x, {"a": 1, "b": [2, 3]})
    {'a': 2, 'b': [4, 6]}
    >>> _pytree.tree_map(lambda x, y: x + y, [1, 2], [10, 20])
    [11, 22]
    """
    columns, spec = _columns(tree, rests, is_leaf)
    return tree_unflatten(list(map(func, *columns)), spec)


def tree_map_(func, tree, *rests, is_leaf=None):
    """`func` of every leaf, for what it does; the tree itself.

    >>> from flambeau.utils import _pytree
    >>> _pytree.tree_map_(print, [1, [2]])
    1
    2
    [1, [2]]
    """
    for each in zip(*_columns(tree, rests, is_leaf)[0], strict=True):
        func(*each)
    return tree


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    """The tree with func(path, leaf, …) in place of every leaf.

    >>> from flambeau.utils import _pytree
    >>> _pytree.tree_map_with_path(lambda path, x: f"{_pytree.keystr(path)} = {x}", {"a": [1, 2]})
    {'a': ["['a'][0] = 1", "['a'][1] = 2"]}
    """
    columns, spec = _columns(tree, rests, is_leaf)
    paths = [path for path, _ in tree_leaves_with_path(tree, is_leaf)]
    return tree_unflatten(list(map(func, paths, *columns)), spec)


def _predicate(types):
    """Leaf -> bool, of a type, a tuple or union of types, or a predicate."""
    if isinstance(types, (type, tuple)) or (hasattr(types, "__args__") and hasattr(types, "__or__")):
        return lambda leaf: isinstance(leaf, types)
    if callable(types):
        return types
    raise TypeError(f"expected a type, several types or a predicate for the leaves, got {shown(types)}")


def map_only(type_or_types_or_pred, /):
    """A decorator: the function of leaves of these types; others come back as they are.

    >>> from flambeau.utils import _pytree
    >>> double = _pytree.map_only(int)(lambda x: 2 * x)
    >>> double(3), double("a")
    (6, 'a')
    """
    chosen = _predicate(type_or_types_or_pred)

    def wrapped(func):
        return lambda leaf: func(leaf) if chosen(leaf) else leaf
    return wrapped


def tree_map_only(type_or_types_or_pred, /, func, tree, is_leaf=None):
    """The tree with `func` applied to the leaves of some types, or that a predicate accepts; the others stay.

    >>> from flambeau.utils import _pytree
    >>> _pytree.tree_map_only(int, lambda x: x + 1, [1, "a", 2.5])
    [2, 'a', 2.5]
    """
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred, /, func, tree, is_leaf=None):
    """`func` of the leaves of some types, for what it does; the tree itself.

    >>> from flambeau.utils import _pytree
    >>> _pytree.tree_map_only_(int, print, [1, "a"])
    1
    [1, 'a']
    """
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred, tree, is_leaf=None):
    """Whether `pred` holds for every leaf.

    >>> from flambeau.utils import _pytree
    >>> _pytree.tree_all(lambda x: x > 0, {"a": 1, "b": [2]})
    True
    """
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred, tree, is_leaf=None):
    """Whether `pred` holds for some leaf.

    >>> from flambeau.utils import _pytree
    >>> _pytree.tree_any(lambda x: x > 1, {"a": 1, "b": [2]})
    True
    """
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(type_or_types, /, pred, tree, is_leaf=None):
    """Whether `pred` holds for every leaf of these types.

    >>> from flambeau.utils import _pytree
    >>> _pytree.tree_all_only(int, lambda x: x > 0, [1, "a"])
    True
    """
    chosen = _predicate(type_or_types)
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if chosen(leaf))


def tree_any_only(type_or_types, /, pred, tree, is_leaf=None):
    """Whether `pred` holds for some leaf of these types.

    >>> from flambeau.utils import _pytree
    >>> _pytree.tree_any_only(int, lambda x: x > 1, [1, "a"])
    False
    """
    chosen = _predicate(type_or_types)
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if chosen(leaf))


def arg_tree_leaves(*args, **kwargs):
    """The leaves of the arguments of a call.

    >>> from flambeau.utils import _pytree
    >>> _pytree.arg_tree_leaves([1], 2, x=3)
    [1, 2, 3]
    """
    return tree_leaves((args, kwargs))
