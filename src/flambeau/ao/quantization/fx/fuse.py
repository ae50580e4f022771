"""Layers of a graph that a backend computes together become one fused layer."""

import flambeau
from flambeau import nn

from .matching import find_matches

_MODULE_OF = {nn.functional.relu: nn.ReLU, flambeau.relu: nn.ReLU}


def put(model, path, module):
    """model.a.b = module for "a.b"."""
    owner, _, name = path.rpartition(".")
    setattr(model.get_submodule(owner), name, module)


def fuse(model, is_qat, backend_config):
    """Fuses the patterns that have a `fuser_method`, in place; a function counts as the module that computes it."""
    modules = dict(model.named_modules(remove_duplicate=False))
    matches = find_matches(model.graph, modules, backend_config, lambda config: config.fuser_method is not None)
    for match in {id(match): match for match in matches.values()}.values():
        layers = [modules[node.target] if node.op == "call_module" else _MODULE_OF[node.target]()
                  for node in match.nodes]
        for layer in layers[1:]:
            layer.train(layers[0].training)
        fused = match.config.fuser_method(is_qat, *layers)
        put(model, match.root.target, fused)
        match.last.replace_all_uses_with(match.root)
        for node in reversed(match.nodes[1:]):
            model.graph.erase_node(node)
    model.graph.lint()
    model.delete_all_unused_submodules()  # layers that are part of another now
    model.recompile()
    return model
