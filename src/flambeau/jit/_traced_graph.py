"""The graph of one run with the sizes of its values, for programs that count or draw what a module computes."""

import flambeau

from .. import _C
from .._aten.overloads import forms
from .._subclasses.fake_tensor import FakeTensorMode
from ..nn import Module
from ..utils._pytree import tree_map
from ._graph import BOOL, INT, TENSOR, Node, path_of
from ._graph_types import Type
from ._operators import library, operator
from ._tracing import trace

#: {operator: (how many dimensions it goes over, whether it is a transposed one)}
_CONVOLUTIONS = {f"aten::conv{'_transpose' * t}{n}d": (n, t) for n in (1, 2, 3) for t in (False, True)}
_NAMES = {flambeau.float64: "Double", flambeau.float32: "Float", flambeau.float16: "Half", flambeau.bool: "Bool",
          flambeau.int64: "Long", flambeau.int32: "Int", flambeau.int16: "Short", flambeau.int8: "Char",
          flambeau.uint8: "Byte", flambeau.bfloat16: "BFloat16", flambeau.complex64: "ComplexFloat",
          flambeau.complex128: "ComplexDouble"}


def get_trace_graph(f, args=(), kwargs=None, strict=True, _force_outplace=False, return_inputs=False,
                    _return_inputs_states=False):
    """(the Graph of f(*args, **kwargs), what the call gives); with `return_inputs`, the arguments besides.

    The graph takes the arguments, then the tensors that a module holds. Its values know their sizes, and its nodes the
    modules that they are of: `scopeName()` of one in `layer.0` is "/layer/layer.0".

    >>> import flambeau
    >>> graph, out = flambeau.jit._get_trace_graph(flambeau.nn.Linear(2, 3), (flambeau.ones(4, 2),))
    >>> node = graph.findNode("aten::linear")
    >>> node.output().type().sizes(), out.shape
    ([4, 3], torch.Size([4, 3]))
    """
    if _force_outplace or _return_inputs_states:
        raise NotImplementedError("jit._get_trace_graph: _force_outplace and _return_inputs_states are not available; "
                                  "leave them out")
    args = args if isinstance(args, tuple) else (args,)
    module = f if isinstance(f, Module) else _Called(f)
    if kwargs:
        traced = trace(module, example_kwarg_inputs=_by_name(module, args, kwargs), check_trace=False, strict=strict)
    else:
        traced = trace(module, args, check_trace=False, strict=strict)
    graph = _Sized(traced, traced.inlined_graph).run(args, kwargs or {})
    found = f(*args, **(kwargs or {}))
    return (graph, found, args) if return_inputs else (graph, found)


class _Called(Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args, **kwargs):
        """Calls it."""
        return self.function(*args, **kwargs)


def _by_name(module, args, kwargs):
    names = list(flambeau.jit._taken_by(type(module).forward, True).names)
    return {**dict(zip(names, args)), **kwargs}


class SizedTensor(Type):
    """The type of a tensor whose sizes are known."""

    def __init__(self, tensor):
        super().__init__("Tensor")
        self._sizes, self._strides = list(map(int, tensor.shape)), list(map(int, tensor.stride()))
        self._dtype, self._device, self._grad = tensor.dtype, tensor.device, tensor.requires_grad

    def sizes(self):
        """Its sizes."""
        return list(self._sizes)

    varyingSizes = sizes

    def strides(self):
        """Its strides."""
        return list(self._strides)

    def dim(self):
        """How many dimensions it has."""
        return len(self._sizes)

    def device(self):
        """Where it is."""
        return self._device

    def dtype(self):
        """Its dtype."""
        return self._dtype

    def scalarType(self):
        """The name of its dtype: "Float", "Long" …"""
        return _NAMES.get(self._dtype, str(self._dtype))

    def requires_grad(self):
        """Whether it requires a gradient."""
        return self._grad

    def shown(self):
        """Its text in a printed graph."""
        return (f"{self.scalarType()}({', '.join(map(str, self._sizes))}{', ' * bool(self._sizes)}"
                f"strides={self._strides}, requires_grad={int(self._grad)}, device={self._device})")


class _Sized:
    """A graph that is run on tensors without values: what each of its values is."""

    def __init__(self, traced, graph):
        self.graph, self.traced = graph, traced
        self.values, self.given = {}, {}  # {value of the graph: what it is}; {path of a tensor: the graph's input}
        self.fake = FakeTensorMode(allow_non_fake_inputs=True)

    def run(self, args, kwargs):
        """The graph, with sizes."""
        receiver, *inputs = self.graph.inputs()
        self.values[receiver] = self.traced
        leaves = [self._fake(x) for x in (*args, *kwargs.values())]
        self.values.update(zip(inputs, leaves))
        for value in inputs:
            self._size(value)
        kept = []
        with self.fake, flambeau.random.fork_rng():
            for node in self.graph.nodes():
                self._step(node)
                kept += self._kept(node)
        self.graph._nodes = kept
        self.graph._given._outputs.remove(receiver)
        return self.graph

    def _fake(self, x):
        return tree_map(lambda t: self.fake.from_tensor(t) if isinstance(t, _C.Tensor) else t, x)

    def _step(self, node):
        """Finds out what a node makes; nothing where that depends on values."""
        kind, given = node.kind(), [self.values.get(value, self) for value in node.inputs()]
        if self in given or any(node.blocks()):
            return
        try:
            found = self._result(node, kind, given)
        except Exception:  # what a program does with values that are not there is not known
            return
        outputs = list(node.outputs())
        several = len(outputs) != 1
        for value, made in zip(outputs, found if several else [found]):
            self.values[value] = made
            self._size(value)

    def _result(self, node, kind, given):
        space, _, name = kind.partition("::")
        if kind == "prim::Constant":
            return node._attributes.get("value")
        if kind == "prim::GetAttr":
            held = getattr(given[0], node.s("name"))
            return self._held(node, held) if isinstance(held, _C.Tensor) else held
        if kind == "prim::ListConstruct":
            return given
        if kind in ("prim::TupleConstruct", "prim::ListUnpack", "prim::TupleUnpack"):
            return tuple(given) if kind == "prim::TupleConstruct" else given[0]
        if space != "aten":
            return library(space, name)(*given)
        named = next((form.arguments for form in forms(name) if len(form.arguments) == len(given) and any(
            a.by_name for a in form.arguments)), ())
        by_name = {a.name: x for a, x in zip(named, given) if a.by_name}
        return operator(name)(*given[:len(given) - len(by_name)], **by_name)

    def _held(self, node, tensor):
        """A tensor that a module holds, which the graph takes as an input."""
        path = ".".join(path_of(node.output()))
        if path not in self.given:
            self.given[path] = self.graph.give(TENSOR, path), self._fake(tensor)
            self.values[self.given[path][0]] = self.given[path][1]
            self._size(self.given[path][0])
        value, found = self.given[path]
        _replace(node.output(), value)
        return found

    def _size(self, value):
        found = self.values[value]
        if isinstance(found, _C.Tensor):
            value._kind = SizedTensor(found)

    def _kept(self, node):
        """The nodes that stand for one."""
        if node.kind() == "prim::GetAttr":
            return []
        given = list(node.inputs())
        if node.kind() == "aten::__getitem__" and isinstance(self.values.get(given[0]), (list, tuple)):
            return self._item(node, *given)
        if node.kind() in _CONVOLUTIONS and isinstance(self.values.get(given[4]), (list, tuple)):
            return self._convolution(node, given)
        return [node]

    def _item(self, node, several, index):
        """An item of a list is one of what a node makes that takes the list apart."""
        made = next((use.user for use in several.uses() if use.user.kind() == "prim::ListUnpack"), None)
        new = [] if made is not None else [Node(self.graph, "prim::ListUnpack", [several], [
            SizedTensor(x) if isinstance(x, _C.Tensor) else node.output().type() for x in self.values[several]])]
        value = (made or new[0])._outputs[self.values[index]]
        self.values[value] = self.values[several][self.values[index]]
        _replace(node.output(), value)
        return new

    def _convolution(self, node, given):
        """A convolution as the one operator that stands for all, and its new constants before it."""
        dims, transposed = _CONVOLUTIONS[node.kind()]
        made = []

        def constant(value, kind):
            made.append(Node(self.graph, "prim::Constant", (), [kind], {"value": value}))
            return made[-1].output()

        def listed(values):
            made.append(Node(self.graph, "prim::ListConstruct", values, [Type("List[int]")]))
            return made[-1].output()

        x, weight, bias, stride, padding = given[:5]
        added, groups, dilation = given[5:8] if transposed else (
            listed([constant(0, INT)] * dims), given[6], given[5])
        flags = [constant(value, BOOL) for value in (False, False, True, True)]
        found = Node(self.graph, "aten::_convolution", [
            x, weight, bias, stride, padding, dilation, constant(transposed, BOOL), added, groups, *flags])
        found._scope, found._line = node._scope, node._line
        found._outputs = node._outputs
        found._outputs[0]._node = found
        return [*made, found]


def _replace(value, other):
    """Gives what took a value another one."""
    for use in value._uses:
        use.user._inputs[use.offset] = other
        other._uses.append(use)
