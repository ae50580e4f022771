"""Open sizes in a trace of make_fx: the Node of each SymInt that is used, and traces that begin anew."""

from ... import _C
from ..._subclasses.fake_tensor import FakeTensorMode
from ..._symbolic.expressions import expression, told
from ..._symbolic.inference import is_open as is_open
from ..._symbolic.numbers import SymBool, SymFloat, SymInt
from ..._symbolic.shape_env import Retrace, ShapeEnv, recognised
from ...ops import OPS
from ...ops.namespaces import READINGS

_RUNS = 64


class SizeNodes:
    """Of one tracer: {expression: Node}; a Node is made when a number is first an argument of an operator."""

    def __init__(self, tracer):
        self.tracer, self.nodes, self.holders = tracer, {}, {}

    def note(self, tensor):
        """A tensor of the trace, whose sizes can be read."""
        for dim, expr in enumerate(getattr(tensor, "symbolic_sizes", None) or ()):
            self.holders.setdefault(expr, (tensor, dim))

    def of(self, x):
        """The Node of an open number; a plain number where the conditions have settled it."""
        if not isinstance(x, (SymInt, SymFloat, SymBool)):
            return x
        expr = x.node.expr
        if isinstance(expr, (bool, int, float)) or getattr(expr, "is_number", False):
            return int(expr) if isinstance(x, SymInt) else expr
        return self._node(x, expr)

    def _node(self, x, expr):
        key = type(x), expr
        if key not in self.nodes:
            self.nodes[key] = self._made(x, expr)
            self.nodes[key].meta["val"] = x
        return self.nodes[key]

    def _asserted(self, x):
        """The Node of a number whose parts may be settled by what is asserted of them."""
        if not isinstance(x, (SymInt, SymFloat, SymBool)):
            return x
        found = self.nodes.get((type(x), x.node._expr))
        if found is None and x.node.made is not None and callable(x.node.made[0]):
            function, args = x.node.made
            found = self.tracer.create_node("call_function", function, tuple(map(self._asserted, args)), {})
            found.meta["val"] = x
            self.nodes[type(x), x.node._expr] = found
        return self._node(x, x.node._expr) if found is None else found

    def _made(self, x, expr):
        made = x.node.made
        if made is None:
            if expr not in self.holders:
                raise NotImplementedError(f"make_fx: no tensor of the trace has the size {told(x)}")
            made = "size", self.holders[expr]
        function, args = made
        if isinstance(function, str):
            args = self.tracer.of_value(tuple(a for a in args if a is not None))
            reading = READINGS[function]
            return self.tracer.create_node("call_function", reading, args, {}, name=reading.__name__)
        return self.tracer.create_node("call_function", function, self.tracer.of_value(tuple(args)), {})

    def assertions(self, env):
        """Adds the Nodes that check what was taken for true of values."""
        for node in env.assertions if env is not None else ():
            truth = self._asserted(SymBool(node))
            self.tracer.create_node("call_function", READINGS["assert"], (truth, told(node._expr)), {})

    def recognised(self, function, args):
        """Arguments with SymInts in the place of sizes that the engine of autograd has read from tensors."""
        if not isinstance(function, _C.Op) or function.name.partition(".")[0] not in ("view", "as_strided"):
            return args
        return args[0], *recognised(args[1:])

    def zeros_of(self, tensor):
        """The Node of zeros that the engine of autograd has made in native sizes of the trace; None for others."""
        sizes = recognised(tuple(tensor.shape))
        if not any(map(is_open, sizes)):
            return None
        return self.tracer.create_node("call_function", OPS["zeros"], (self.tracer.of_value(sizes),),
                                       {"dtype": tensor.dtype, "device": tensor.device})


def number_placeholder(tracer, env, node, value):
    """A SymInt for an example int, whose placeholder is this Node; other values as they are."""
    if type(value) is not int or value in (0, 1):
        return value
    made = env.create_symintnode(expression(env.create_symbol(value, node.name)))
    if isinstance(made, SymInt):
        tracer.size_nodes.nodes.setdefault((SymInt, made.node.expr), node)
    return made


def retraced(trace, allow_non_fake_inputs=True):
    """trace(mode) with open sizes, as often as it takes until the conditions that it meets are known beforehand."""
    env = ShapeEnv()
    env.restarts = True
    for _ in range(_RUNS):
        try:
            return trace(FakeTensorMode(allow_non_fake_inputs=allow_non_fake_inputs, shape_env=env))
        except Retrace:
            env.restarted()
    raise NotImplementedError("make_fx: the sizes of this program need more conditions than can be found; trace it "
                              "with tracing_mode='fake'")

