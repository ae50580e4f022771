"""What records a program: a graph whose first inputs are the weights, and tensors that come up on the way."""

import contextlib

import flambeau

from .. import _C
from .._subclasses.fake_tensor import FakeTensor
from ..fx.experimental._known import describe
from ..fx.experimental.proxy_tensor import PythonKeyTracer
from ..fx.proxy import Proxy
from .graph_signature import InputKind, InputSpec, TensorArgument


class InsideAStep(RuntimeError):
    """The program needs a value that is made inside of one of its steps."""

    def __init__(self):
        super().__init__("export: the program needs a tensor without values that none of its steps has made; compute "
                         "it by operators inside forward")


class Tracer(PythonKeyTracer):
    """Weights are the first placeholders; tensors that come up on the way become more of them."""

    def __init__(self, module):
        super().__init__()
        self.inputs, self.constants, self.last = [], {}, None
        self.attributes = {id(value): f"{name}.{key}".lstrip(".") for name, owner in module.named_modules()
                           for key, value in vars(owner).items() if isinstance(value, _C.Tensor)}
        state = module.state_dict(keep_vars=True)
        for name, value in module.named_parameters(remove_duplicate=False):
            self._weight("p", InputKind.PARAMETER, name, value)
        for name, value in module.named_buffers(remove_duplicate=False):
            self._weight("b", InputKind.BUFFER, name, value, persistent=name in state)
            if name not in state:
                self.constants[name] = value

    def _weight(self, prefix, kind, name, value, persistent=None):
        name_of_node = f"{prefix}_{name.replace('.', '_')}"
        first = next(iter(self.graph.nodes), None)
        place = self.graph.inserting_after(self.last) if self.last is not None else \
            self.graph.inserting_before(first) if first is not None else contextlib.nullcontext()
        with place:
            node = self.graph.create_node("placeholder", name_of_node, (), {}, name=name_of_node)
        node.target, self.last = node.name, node
        self.inputs.append(InputSpec(kind, TensorArgument(node.name), name, persistent))
        describe(node, value)
        if self.known.get(value) is None:
            self.known[value] = Proxy(node, self)
        return node

    def _constant_of(self, tensor):
        zeros = self.size_nodes.zeros_of(tensor)
        if zeros is not None:
            return zeros
        name = self.attributes.get(id(tensor))
        if name is None:
            name = f"lifted_tensor_{sum(n.startswith('lifted_tensor_') for n in self.constants)}"
        if isinstance(tensor, FakeTensor):
            raise InsideAStep
        self.constants[name] = tensor.detach() if type(tensor) is _C.Tensor else tensor
        node = self._weight("c", InputKind.CONSTANT_TENSOR, name, tensor)
        self.remember(node, tensor)
        return node

    def set_constant(self, node, values):
        """Gives the constant of a placeholder other values."""
        self.constants[next(spec.target for spec in self.inputs if spec.arg.name == node.name)] = values

    def branch(self):
        """Branches take tensors from outside as arguments."""
        return PythonKeyTracer()

    def create_arg(self, a):
        """Parameters are placeholders."""
        if isinstance(a, flambeau.nn.Parameter):
            found = self.known.get(a)
            return found.node if found is not None else self._constant_of(a)
        return super().create_arg(a)


def stays(node):
    """Whether a Node stays although nobody uses it."""
    return node.op == "placeholder" or (node.is_impure(impure_random=True) and node.op != "get_attr")
