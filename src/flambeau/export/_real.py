"""A trace on real values, for programs whose Python reads them: what it reads becomes a constant."""

from .. import _C
from .._symbolic.shape_env import ShapeEnv
from ..fx.experimental._known import describe
from ..fx.experimental.proxy_tensor import ProxyTorchDispatchMode, depends_on_arguments
from ..fx.proxy import Proxy
from ._trace import Export
from .graph_signature import ConstantArgument, InputKind, InputSpec, TensorArgument


class _Values(ProxyTorchDispatchMode):
    """Records operators, and runs them."""

    def before_reading(self, tensor):
        if self.enable_tracing and depends_on_arguments(self.tracer.known.get(tensor)):
            self.on_reading()


class RealExport(Export):
    """One run of a module on copies of its arguments; all sizes are the example's.

    on_reading      is called where Python reads a value that depends on the arguments
    """

    def __init__(self, mod, args, kwargs, on_reading):
        super().__init__(mod, args, kwargs, None, ShapeEnv())
        self.said, self.fake, self.on_reading = [None] * len(self.leaves), None, on_reading

    def mode(self):
        """What records the operators."""
        mode = _Values(self.tracer, "real")
        mode.on_reading = self.on_reading
        return mode

    def _argument(self, name, leaf, said):
        node = self.tracer.create_node("placeholder", name, (), {}, name=name)
        node.target = node.name
        value, argument = leaf, ConstantArgument(node.name, leaf)
        if isinstance(leaf, _C.Tensor):
            value, argument = leaf.detach().clone(), TensorArgument(node.name)
            self.tracer.known[value] = Proxy(node, self.tracer)
        self.user.append(InputSpec(InputKind.USER_INPUT, argument, None))
        describe(node, value)
        return value
