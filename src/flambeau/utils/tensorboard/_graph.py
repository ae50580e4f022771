"""The graph of a module: the operators that one call runs, each named by the modules around it."""

import inspect

from ... import Tensor
from ..._tensor.overriding import TorchFunctionMode
from ...autograd import no_grad
from ...nn.modules._hooks import register_module_forward_hook, register_module_forward_pre_hook
from .._pytree import tree_leaves
from ._protos import protos


def _tensors(x):
    return [leaf for leaf in tree_leaves(x) if isinstance(leaf, Tensor)]


class _Recorder(TorchFunctionMode):
    """Nodes as (name, operator, names of inputs, shape), in the order of the calls."""

    def __init__(self, model):
        self.scopes = {module: self._scope(model, path) for path, module in model.named_modules()}
        self.parameters = {}
        for path, module in model.named_modules():
            own = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
            for name, tensor in own:
                self.parameters.setdefault(id(tensor), f"{self._scope(model, path)}/{name}")
        self.stack, self.nodes, self.used = [], [], {}
        self.names, self.alive = {}, []

    @staticmethod
    def _scope(model, path):
        """As "Net/Sequential[seq]/Linear[0]": types of modules with their names."""
        parts, module = [type(model).__name__], model
        for name in path.split(".") if path else ():
            module = getattr(module, name)
            parts.append(f"{type(module).__name__}[{name}]")
        return "/".join(parts)

    def add(self, name, op, inputs, shape):
        count = self.used[name] = self.used.get(name, -1) + 1
        name = f"{name}_{count}" if count else name
        self.nodes.append((name, op, inputs, shape))
        return name

    def produced(self, tensor, name):
        """`tensor` is known by that name as long as the recording lasts."""
        self.names[id(tensor)] = name
        self.alive.append(tensor)

    def name_of(self, tensor):
        """The node that a tensor comes from; a parameter or a constant becomes a node when first used."""
        if id(tensor) not in self.names:
            scope = self.stack[-1] if self.stack else "constants"
            known = self.parameters.get(id(tensor))
            op = "Parameter" if known else "Constant"
            self.produced(tensor, self.add(known or f"{scope}/constant", op, [], tensor.shape))
        return self.names[id(tensor)]

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        found = _tensors(result)
        if found:
            inputs = [self.name_of(t) for t in _tensors((args, kwargs))]
            op = getattr(func, "name", getattr(func, "__name__", str(func)))
            scope = self.stack[-1] if self.stack else "call"
            name = self.add(f"{scope}/{op}", f"aten::{op}", inputs, found[0].shape)
            for tensor in found:
                self.produced(tensor, name)
        return result


def _record(model, args):
    recorder = _Recorder(model)

    def before(module, inputs):
        if module in recorder.scopes:
            recorder.stack.append(recorder.scopes[module])

    def after(module, inputs, output):
        if module in recorder.scopes:
            recorder.stack.pop()

    parameters = list(inspect.signature(model.forward).parameters)
    for k, given in enumerate(args):
        name = parameters[k] if k < len(parameters) else f"input_{k}"
        for tensor in _tensors(given):
            recorder.produced(tensor, recorder.add(f"input/{name}", "IO Node", [], tensor.shape))
    handles = [register_module_forward_pre_hook(before), register_module_forward_hook(after, always_call=True)]
    try:
        with no_grad(), recorder:
            output = model(*args)
    finally:
        for handle in handles:
            handle.remove()
    for tensor in _tensors(output):
        recorder.add("output/output", "IO Node", [recorder.name_of(tensor)], tensor.shape)
    return recorder.nodes, output


def graph(model, inputs, strict=True):
    """The GraphDef of model(*inputs); with `strict` a dictionary as output is refused."""
    p = protos()
    nodes, output = _record(model, tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,))
    if strict and isinstance(output, dict):
        raise RuntimeError("add_graph: the module returns a dictionary; pass use_strict_trace=False to accept that")

    def node(name, op, inputs, shape):
        sizes = p.AttrValue.ListValue(shape=[{"dim": [{"size": n} for n in shape]}])
        return p.NodeDef(name=name, op=op, input=inputs, attr={"_output_shapes": p.AttrValue(list=sizes)})

    return p.GraphDef(node=[node(*each) for each in nodes], versions=p.VersionDef(producer=22))
