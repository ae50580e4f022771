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
