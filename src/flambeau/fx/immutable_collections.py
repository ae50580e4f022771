"""Lists and dicts that arguments of nodes are kept in: they cannot be changed in place, so users stay known."""

from functools import partialmethod

from ..utils import _pytree

_ADVICE = ("arguments of a Node change as a whole, so that the graph knows its users; copy the {0}, change the copy "
           "and assign it: node.args = (…,) or node.kwargs = {{…}}, or call node.update_arg and node.update_kwarg")


def _refuse(self, kind, name, *_, **__):
    raise TypeError(f"immutable_{kind}.{name}: " + _ADVICE.format(kind))


class immutable_list(list):
    """A list that cannot be changed; it has a hash where its items have one.

    >>> from flambeau.fx.immutable_collections import immutable_list
    >>> immutable_list([1, 2]) == [1, 2]
    True
    """

    def __hash__(self):
        return hash(tuple(self))

    def __reduce__(self):
        return _list_of, (list(self),)


class immutable_dict(dict):
    """A dict that cannot be changed; it has a hash where its items have one."""

    def __hash__(self):
        return hash(frozenset(self.items()))

    def __reduce__(self):
        return _dict_of, (dict(self),)


def _list_of(items):
    return immutable_list(items)


def _dict_of(items):
    return immutable_dict(items)


_list_of._restores = _dict_of._restores = True  # files of flambeau.save may call them
_CHANGING = {
    immutable_list: "append extend insert pop remove clear reverse sort __setitem__ __delitem__ __iadd__ __imul__",
    immutable_dict: "update pop popitem clear setdefault __setitem__ __delitem__ __ior__",
}
for _kind, _names in _CHANGING.items():
    for _name in _names.split():
        setattr(_kind, _name, partialmethod(_refuse, _kind.__mro__[1].__name__, _name))

_pytree.register_pytree_node(
    immutable_list, lambda items: (list(items), None), lambda items, _: immutable_list(items),
    serialized_type_name="torch.fx.immutable_collections.immutable_list",
    flatten_with_keys_fn=_pytree._list_flatten_with_keys)
_pytree.register_pytree_node(
    immutable_dict, lambda items: (list(items.values()), list(items)),
    lambda values, keys: immutable_dict(zip(keys, values, strict=True)),
    serialized_type_name="torch.fx.immutable_collections.immutable_dict",
    flatten_with_keys_fn=_pytree._dict_flatten_with_keys)
