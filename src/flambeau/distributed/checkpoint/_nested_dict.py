"""Nested state dicts as flat ones: the path to every value, joined by dots, is its name in the checkpoint."""

from collections.abc import Mapping
from itertools import pairwise

import flambeau

from ..._shown import shown


def flatten_state_dict(state_dict, open_mappings=True):
    """({name: value}, {name: path}). Mappings are opened, and lists that hold tensors or mappings; no other value is.

    Without `open_mappings`, those mappings alone that hold tensors, as PyTorch did before 2.4.

    >>> from flambeau.distributed.checkpoint._nested_dict import flatten_state_dict
    >>> flatten_state_dict({"a": {"b": 1}, "c": [{"d": 2}], "e": [3]})[0]
    {'a.b': 1, 'c.0.d': 2, 'e': [3]}
    """
    flat, paths = {}, {}
    for key, value in state_dict.items():
        for path, leaf in _leaves((str(key),), value, open_mappings):
            name = ".".join(map(str, path))
            if name in flat:
                raise ValueError(f"flatten_state_dict: {shown(path)} and {shown(paths[name])} have one name, "
                                 f"{shown(name)}; rename one of them")
            flat[name], paths[name] = leaf, path
    return flat, paths


def _leaves(path, value, open_mappings):
    if isinstance(value, Mapping) and (open_mappings or _opens(value, open_mappings)):
        for key, part in value.items():
            yield from _leaves((*path, str(key)), part, open_mappings)
    elif isinstance(value, list) and _opens(value, open_mappings):
        for k, part in enumerate(value):
            yield from _leaves((*path, k), part, open_mappings)
    else:
        yield path, value


def _opens(value, open_mappings):
    """Whether something in a list, or mapping, is stored under a name of its own."""
    parts = value.values() if isinstance(value, Mapping) else value
    return any(isinstance(part, flambeau.Tensor) or (isinstance(part, Mapping) and open_mappings)
               or (isinstance(part, (list, Mapping)) and _opens(part, open_mappings)) for part in parts)


def set_element(root, path, value):
    """Puts a value at its path; dicts and lists on the way are made where they are missing."""
    for key, following in pairwise(path):
        if isinstance(root, list):
            root.extend([None] * (key + 1 - len(root)))
            if root[key] is None:
                root[key] = {} if isinstance(following, str) else []
        elif key not in root:
            root[_own_key(root, key)] = {} if isinstance(following, str) else []
        root = root[_own_key(root, key)]
    last = path[-1]
    if isinstance(root, list):
        root.extend([None] * (last + 1 - len(root)))
    root[_own_key(root, last)] = value


def _own_key(root, key):
    """The dict's key behind the name of a path: numbers have become texts there, as in an optimizer's state."""
    if isinstance(root, list) or key in root:
        return key
    return next((own for own in root if str(own) == key), key)


def unflatten_state_dict(state_dict, mapping):
    """The nested dict of a flat one.

    >>> from flambeau.distributed.checkpoint._nested_dict import unflatten_state_dict
    >>> unflatten_state_dict({"a.b": 1}, {"a.b": ("a", "b")})
    {'a': {'b': 1}}
    """
    nested = {}
    for name, value in state_dict.items():
        set_element(nested, mapping[name], value)
    return nested
