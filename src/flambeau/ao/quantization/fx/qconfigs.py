"""Which configuration each node of a graph has, by a QConfigMapping."""

import re
from collections import Counter

from flambeau import nn

from ...nn.intrinsic import _FusedModule
from ..fake_quantize import FakeQuantizeBase
from ..observer import ObserverBase

_kind = nn.utils.parametrize.type_before_parametrizations


def observes(module):
    """Whether a module is an observer or a fake quantization."""
    return isinstance(module, (ObserverBase, FakeQuantizeBase))


def _by_name(mapping, name, otherwise):
    """Of the module itself or of the nearest around it that has one."""
    while name:
        if name in mapping.module_name_qconfigs:
            return mapping.module_name_qconfigs[name]
        name = name.rpartition(".")[0]
    return otherwise


def _by_module(mapping, kind, name, otherwise):
    found = mapping.object_type_qconfigs.get(kind, otherwise)
    for pattern, qconfig in mapping.module_name_regex_qconfigs.items():
        if re.match(pattern, name):
            found = qconfig
            break
    return _by_name(mapping, name, found)


def _kind_of(module, mapping):
    """The class under which a module is looked up: for fused layers that of their first, unless their own is named."""
    kind = _kind(module)
    if not isinstance(module, _FusedModule) or kind in mapping.object_type_qconfigs or not len(module):
        return kind
    kinds = [_kind(part) for part in module]
    said = mapping.object_type_qconfigs
    if kinds[0] in said and any(said.get(k, said[kinds[0]]) != said[kinds[0]] for k in kinds[1:]):
        raise LookupError(f"prepare_fx: {kind.__name__} is made of {', '.join(k.__name__ for k in kinds)}, for which "
                          "the mapping has different qconfigs; give them the same")
    return kinds[0]


def node_qconfigs(model, mapping, scopes):
    """{name of a node: its QConfig or None}."""
    modules, found, counts = dict(model.named_modules(remove_duplicate=False)), {}, Counter()
    for node in model.graph.nodes:
        path, kind = scopes.get(node.name, ("", None))
        qconfig = None
        if node.op == "get_attr":
            qconfig = _by_module(mapping, kind, path, mapping.global_qconfig)
        elif node.op in ("call_function", "call_method"):
            of_type = mapping.object_type_qconfigs.get(node.target, mapping.global_qconfig)
            qconfig = _by_module(mapping, kind, path, of_type)
            qconfig = _in_order(mapping, path, node.target, counts, qconfig)
        elif node.op == "call_module" and not observes(modules[node.target]):
            kind = _kind_of(modules[node.target], mapping)
            qconfig = _by_module(mapping, kind, node.target, mapping.global_qconfig)
            qconfig = _in_order(mapping, node.target.rpartition(".")[0], kind, counts, qconfig)
            modules[node.target].qconfig = qconfig
        found[node.name] = qconfig
    return found


def _in_order(mapping, path, kind, counts, otherwise):
    key = (path, kind, counts[path, kind])
    counts[path, kind] += 1
    return mapping.module_name_object_type_order_qconfigs.get(key, otherwise)
