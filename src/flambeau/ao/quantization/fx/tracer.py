"""Tracing for quantization: layers of the library, fused ones, and modules that the model names stay whole."""

from ....fx import Tracer
from ...nn.intrinsic import _FusedModule


class QuantizationTracer(Tracer):
    """A Tracer that also leaves modules of the given names and classes whole."""

    def __init__(self, skipped_module_names, skipped_module_classes):
        super().__init__()
        self.skipped_module_names, self.skipped_module_classes = skipped_module_names, skipped_module_classes
        self.record_stack_traces = True

    def is_leaf_module(self, m, module_qualified_name):
        """Whether the call of a submodule is one node."""
        return (super().is_leaf_module(m, module_qualified_name) or isinstance(m, _FusedModule)
                or module_qualified_name in self.skipped_module_names or type(m) in self.skipped_module_classes)
