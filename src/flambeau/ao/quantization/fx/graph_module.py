"""Graph modules on the way to quantized ones: they keep named attributes of the model that they were made from."""

from ....fx import GraphModule


class FusedGraphModule(GraphModule):
    """A graph module with attributes of the model that it was made from."""

    def __init__(self, root, graph, preserved_attr_names):
        super().__init__(root, graph)
        self.preserved_attr_names = set(preserved_attr_names)
        for name in self.preserved_attr_names:
            if hasattr(root, name):
                setattr(self, name, getattr(root, name))


class ObservedGraphModule(FusedGraphModule):
    """A graph module with observers; `meta` keeps what `convert_fx` has to know."""


class QuantizedGraphModule(FusedGraphModule):
    """A graph module that computes on codes."""

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name, value in vars(self).items():
            if name.startswith("_packed_weight_"):
                destination[prefix + name] = value

    def _load_from_state_dict(self, state_dict, prefix, *args):
        for name in [name for name in vars(self) if name.startswith("_packed_weight_")]:
            if prefix + name in state_dict:
                setattr(self, name, state_dict.pop(prefix + name))
        super()._load_from_state_dict(state_dict, prefix, *args)
