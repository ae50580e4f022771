"""Specs as JSON, in the form that PyTorch reads and writes, and as text for people."""

import json
import sys
from collections import OrderedDict, defaultdict, namedtuple
from enum import Enum

from ..._shown import shown
from ._nodes import SUPPORTED_NODES
from ._register import NAMED
from ._spec import LEAF, TreeSpec, tree_unflatten

_PROTOCOL = 1


class _Star:
    def __repr__(self):
        return "*"


def treespec_pprint(treespec):
    """The tree as it would print, with `*` for each leaf.

    >>> from flambeau.utils import _pytree
    >>> _pytree.treespec_pprint(_pytree.tree_structure({"a": 1, "b": [2, 3]}))
    "{'a': *, 'b': [*, *]}"
    """
    return repr(tree_unflatten([_Star()] * treespec.num_leaves, treespec))


def _enum(value):
    if isinstance(value, Enum):
        return {"__enum__": True, "fqn": f"{type(value).__module__}:{type(value).__qualname__}", "name": value.name}
    raise TypeError(f"treespec_dumps: {shown(value)} has no form in JSON; register the class that holds it with "
                    "to_dumpable_context and from_dumpable_context")


def _imported(module, qualname):
    """A class or function by its name; a text never imports anything."""
    found = sys.modules.get(module)
    for name in qualname.split("."):
        found = getattr(found, name, None)
    if found is None:
        raise NotImplementedError(f"treespec_loads: {shown(f'{module}.{qualname}')} is not imported; import it first")
    return found


def _of_object(found):
    """Enumeration members back from what `_enum` made."""
    if found.get("__enum__") is True:
        kind = _imported(*found["fqn"].split(":"))
        if not (isinstance(kind, type) and issubclass(kind, Enum)):
            raise ValueError(f"treespec_loads: {shown(found['fqn'])} is no enumeration")
        return kind[found["name"]]
    return found


def _dumped_context(spec):
    node = SUPPORTED_NODES[spec.type]
    if spec.type is namedtuple:
        name = next((name for name, cls in NAMED.items() if cls is spec.context), None)
        if name is None:
            raise NotImplementedError(f"treespec_dumps: {spec.context.__name__} has no name for files; give it one "
                                      "with _register_namedtuple(cls, serialized_type_name=…)")
        return name
    if spec.type is defaultdict:
        factory, keys = spec.context
        return {"default_factory_module": factory.__module__, "default_factory_name": factory.__qualname__,
                "dict_context": keys} if factory is not None else \
            {"default_factory_module": None, "default_factory_name": None, "dict_context": keys}
    return node.dump(spec.context) if node.dump is not None else json.dumps(spec.context, default=_enum)


def _to_dict(spec):
    if spec.type is None:
        return {"type": None, "context": None, "children_spec": []}
    name = SUPPORTED_NODES[spec.type].name
    if name is None:
        raise NotImplementedError(f"treespec_dumps: {spec.type.__name__} has no name for files; pass "
                                  "serialized_type_name where it is registered")
    return {"type": name, "context": _dumped_context(spec),
            "children_spec": [_to_dict(child) for child in spec.children_specs]}


def _check_protocol(protocol):
    if protocol not in (None, _PROTOCOL):
        raise ValueError(f"the only form of specs in files is {_PROTOCOL}, got {shown(protocol)}")


def treespec_dumps(treespec, protocol=None):
    """A spec as JSON.

    >>> from flambeau.utils import _pytree
    >>> _pytree.treespec_dumps(_pytree.tree_structure(1))
    '[1, {"type": null, "context": null, "children_spec": []}]'
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"treespec_dumps: expected a TreeSpec, got {shown(treespec)}")
    _check_protocol(protocol)
    return json.dumps([_PROTOCOL, _to_dict(treespec)], default=_enum)


def _loaded_context(node, text):
    if node.type is namedtuple:
        if text not in NAMED:
            raise NotImplementedError(f"treespec_loads: no class of named tuples is registered as {shown(text)}")
        return NAMED[text]
    if node.type is defaultdict:
        module, name = text["default_factory_module"], text["default_factory_name"]
        return [None if module is None else _imported(module, name), text["dict_context"]]
    if node.load is not None:
        return node.load(text)
    context = json.loads(text, object_hook=_of_object)
    if node.type in (dict, OrderedDict):  # JSON has no tuples: keys that were tuples come back as such
        return [tuple(key) if isinstance(key, list) else key for key in context]
    return context


def _of_dict(found):
    if found["type"] is None:
        return LEAF
    node = next((n for n in list(SUPPORTED_NODES.values()) if n.name == found["type"]), None)
    if node is None:
        raise NotImplementedError(f"treespec_loads: no class is registered as {shown(found['type'])}")
    children = [_of_dict(child) for child in found["children_spec"]]
    return TreeSpec(node.type, _loaded_context(node, found["context"]), children)


def treespec_loads(serialized):
    """The spec that `treespec_dumps` wrote. Nothing is imported: classes must be registered in this process.

    >>> from flambeau.utils import _pytree
    >>> spec = _pytree.tree_structure({"a": [1, 2]})
    >>> _pytree.treespec_loads(_pytree.treespec_dumps(spec)) == spec
    True
    """
    protocol, found = json.loads(serialized)
    _check_protocol(protocol)
    return _of_dict(found)
