"""Takes arguments apart by a spec that is known: for what a traced function was called with, checked loosely."""

from collections import namedtuple

from ..utils import _pytree

_RULES = {}


def register_pytree_flatten_spec(cls, flatten_fn_spec, flatten_fn_exact_match_spec=None):
    """Says how a container of class `cls` is taken apart by a spec: flatten_fn_spec(container, spec) gives the items;
    flatten_fn_exact_match_spec(container, spec) whether its size fits."""
    _RULES[cls] = (flatten_fn_spec, flatten_fn_exact_match_spec)


def tree_flatten_spec(pytree, spec):
    """The leaves of a tree that has the structure of `spec`; containers may hold more than it knows.

    >>> from flambeau.fx._pytree import tree_flatten_spec
    >>> from flambeau.utils import _pytree
    >>> tree_flatten_spec([1, {"a": 2}], _pytree.tree_structure([0, {"a": 0}]))
    [1, 2]
    """
    if spec.is_leaf():
        return [pytree]
    rule = _RULES.get(spec.type)
    if rule is None:
        node = _pytree.SUPPORTED_NODES.get(spec.type)
        if node is None or _pytree._get_node_type(pytree) is not spec.type:
            raise RuntimeError(f"tree_flatten_spec: {spec.type} has no rule for flattening by a spec; register one by "
                               "fx._pytree.register_pytree_flatten_spec")
        children, _ = node.flatten_fn(pytree)
    else:
        children = rule[0](pytree, spec)
    return [leaf for child, inner in zip(children, spec.children_specs, strict=True)
            for leaf in tree_flatten_spec(child, inner)]


def _by_key(d, spec):
    return [d[key] for key in spec.context]


def _first(items, spec):
    return [items[k] for k in range(spec.num_children)]


def _same_length(items, spec):
    return len(items) == spec.num_children


for _kind, _rule in ((dict, _by_key), (list, _first), (tuple, _first), (namedtuple, _first)):
    register_pytree_flatten_spec(_kind, _rule, _same_length)
