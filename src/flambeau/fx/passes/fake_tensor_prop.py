"""FakeTensorProp: runs a graph on tensors without values; every Node keeps its result in meta["val"]."""

from ... import _C
from ..._subclasses.fake_tensor import FakeTensorMode
from ...func import functional_call
from ..interpreter import Interpreter
from ..node import map_aggregate

__all__ = ["FakeTensorProp"]


class FakeTensorProp(Interpreter):
    """Runs a GraphModule on fake tensors, so nothing is computed.

    >>> import flambeau
    >>> from flambeau.fx.passes.fake_tensor_prop import FakeTensorProp
    >>> gm = flambeau.fx.symbolic_trace(lambda x: x @ x)
    >>> FakeTensorProp(gm).propagate(flambeau.ones(3, 3)).shape
    torch.Size([3, 3])
    """

    def __init__(self, module, mode=None):
        super().__init__(module)
        self._mode = FakeTensorMode(allow_non_fake_inputs=True) if mode is None else mode

    def run_node(self, n):
        """The value of a Node, which its meta keeps."""
        result = super().run_node(n)
        if n.op != "output" or isinstance(result, _C.Tensor):
            n.meta["val"] = map_aggregate(result, lambda x: x)
        n.meta["type"] = type(result)
        return result

    def call_module(self, target, args, kwargs):
        """The call of a submodule with parameters without values."""
        module = self.fetch_attr(target)
        fakes = {name: self._mode.from_tensor(value) for name, value in
                 (*module.named_parameters(), *module.named_buffers())}
        with self._mode:
            return functional_call(module, fakes, args, kwargs)

    def fetch_attr(self, target):
        """The attribute; a tensor without its values."""
        value = super().fetch_attr(target)
        return self._mode.from_tensor(value) if isinstance(value, _C.Tensor) else value

    def propagate(self, *args):
        """Runs the module on arguments of these shapes and dtypes."""
        return self.propagate_dont_convert_inputs(
            *(self._mode.from_tensor(a) if isinstance(a, _C.Tensor) else a for a in args))

    def propagate_dont_convert_inputs(self, *args):
        """Runs the module on arguments that are fake already."""
        with self._mode:
            return super().run(*args)
