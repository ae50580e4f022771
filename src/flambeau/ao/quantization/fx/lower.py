"""The graph of reference becomes one on codes: where numbers go through codes before and after an operator, the
quantized operator computes on the codes themselves."""

import operator

import flambeau
from flambeau import nn

from ....fx import Node
from ...nn import intrinsic as nni
from ...nn import quantized as nnq
from ...nn.intrinsic import ConvReLU1d, ConvReLU2d, ConvReLU3d, LinearReLU, _FusedModule
from ...nn.intrinsic import quantized as nniq
from ...nn.intrinsic.quantized import dynamic as nniqd
from ...nn.quantized import dynamic as nnqd
from ...nn.quantized import reference as nnqr
from ..backend_config import ObservationType
from .fuse import put
from .matching import head_of

F = nn.functional
_ops = flambeau.ops.quantized


def _same(source, target, names):
    return {getattr(source, name): getattr(target, name) for name in names.split()}


#: layer of reference -> its quantized one
_STATIC = _same(nnqr, nnq, "Linear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d")
#: (fused class, layer of reference in it) -> quantized one
_FUSED = {(LinearReLU, nnqr.Linear): nniq.LinearReLU, (ConvReLU1d, nnqr.Conv1d): nniq.ConvReLU1d,
          (ConvReLU2d, nnqr.Conv2d): nniq.ConvReLU2d, (ConvReLU3d, nnqr.Conv3d): nniq.ConvReLU3d}
_DYNAMIC = _same(nnqr, nnqd, "Linear GRUCell LSTMCell RNNCell LSTM GRU")
_TABLES = _same(nnqr, nnq, "Embedding EmbeddingBag")
#: float layer -> the quantized one that is made with a scale: made.from_reference(layer, scale, zero_point)
_SCALED = {**_same(nn, nnq, "ELU LeakyReLU Hardswish InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm Dropout "
                            "PReLU BatchNorm2d BatchNorm3d Sigmoid Softmax"), **_same(nni, nniq, "BNReLU2d BNReLU3d")}
#: function -> the operator that takes (…, scale, zero_point)
_SCALED_FUNCTIONS = {F.elu: _ops.elu, F.hardswish: _ops.hardswish, F.instance_norm: _ops.instance_norm,
                     F.layer_norm: _ops.layer_norm, flambeau.layer_norm: _ops.layer_norm,
                     F.leaky_relu: _ops.leaky_relu, F.dropout: _ops.dropout}
#: function -> (operator, operator with ReLU)
_SUMS = {operator.add: (_ops.add, _ops.add_relu), flambeau.add: (_ops.add, _ops.add_relu),
         operator.mul: (_ops.mul, _ops.mul_relu), flambeau.mul: (_ops.mul, _ops.mul_relu),
         flambeau.matmul: (_ops.matmul, None)}
#: function -> (packing, operator, operator with ReLU, in numbers, in numbers with ReLU)
_WEIGHTED = {F.linear: ("linear_prepack", "linear", "linear_relu"),
             **{getattr(F, f"conv{n}d"): (f"conv{n}d_prepack", f"conv{n}d", f"conv{n}d_relu") for n in (1, 2, 3)},
             **{getattr(F, f"conv_transpose{n}d"): (f"conv_transpose{n}d_prepack", f"conv_transpose{n}d", None)
                for n in (1, 2, 3)}}
_RELUS = (nn.ReLU, F.relu, flambeau.relu)
_QUANTIZING = (flambeau.quantize_per_tensor, flambeau.quantize_per_channel)
_SIZES = ("size", "shape", "dim", "numel", "ndim")


def lower(model, state, backend_config):
    """Puts quantized operators and layers into a graph of reference, in place."""
    lowering = _Lowering(model, state, backend_config)
    for node in list(model.graph.nodes):
        if node in lowering.alive():
            lowering.at(node)
    model.graph.eliminate_dead_code()
    model.delete_all_unused_submodules()
    for name in [name for name, _ in model.named_buffers(recurse=False)]:
        if not any(node.op == "get_attr" and node.target == name for node in model.graph.nodes) \
                and ("_scale_" in name or "_zero_point_" in name):
            delattr(model, name)
    model.graph.lint()
    model.recompile()
    return model


def _codes(node):
    """The node of the codes behind a step back into numbers; None where there is none."""
    return node.args[0] if isinstance(node, Node) and node.op == "call_method" and node.target == "dequantize" else None


class _Lowering:
    """One walk over the graph: what a node is decides, by the tables above, which operator takes its place."""

    def __init__(self, model, state, backend_config):
        self.model, self.graph, self.observed = model, model.graph, state["observed"]
        self.modules = dict(model.named_modules(remove_duplicate=False))
        self.configs = backend_config._pattern_complex_format_to_config
        self.packed = 0

    def alive(self):
        return self.graph.nodes

    def at(self, node):
        if node.op == "call_module":
            self._module(node, self.modules[node.target])
        elif node.op in ("call_function", "call_method"):
            self._function(node)

    # --- the surroundings of a node -----------------------------------------------------------------------------------

    def _after(self, node):
        """(the last node, ReLU or the node itself; the step into codes after it), None where there is no such step."""
        relu, users = None, list(node.users)
        if len(users) == 1 and head_of(users[0], self.modules) in _RELUS and _codes(users[0]) is None:
            relu, users = users[0], list(users[0].users)
        if len(users) == 1 and users[0].target is flambeau.quantize_per_tensor:
            return relu, users[0]
        return None, None

    def _put(self, node, step):
        """The node computes on codes now: it takes the place of the step into codes after it."""
        step.replace_all_uses_with(node)
        self.graph.erase_node(step)

    def _scale(self, step):
        return (getattr(self.model, arg.target) for arg in step.args[1:3])

    # --- modules ------------------------------------------------------------------------------------------------------

    def _module(self, node, module):
        kind = type(module)
        inner = module[0] if isinstance(module, _FusedModule) else module
        source = _codes(node.args[0]) if node.args else None
        if type(inner) in _TABLES:
            self._swap(node, _TABLES[type(inner)].from_reference(inner))
        elif source is None:
            return
        elif type(inner) in _DYNAMIC and source.target in (flambeau.quantize_per_tensor_dynamic, "to"):
            self._dynamic(node, module, inner, source)
        elif (kind, type(inner)) in _FUSED or kind in _STATIC:
            self._layer(node, inner, _FUSED.get((kind, type(inner)), _STATIC.get(kind)), source)
        elif kind in _SCALED:
            self._layer(node, module, _SCALED[kind], source)
        elif node.name in self.observed:
            self._on_codes(node)

    def _swap(self, node, made):
        put(self.model, node.target, made)
        self.modules[node.target] = made

    def _dynamic(self, node, module, inner, source):
        made = nniqd.LinearReLU if type(module) is LinearReLU else _DYNAMIC[type(inner)]
        self._swap(node, made.from_reference(inner))
        node.args = (source.args[0], *node.args[1:])

    def _layer(self, node, layer, made, source):
        users = list(node.users)
        if made is None or len(users) != 1 or users[0].target is not flambeau.quantize_per_tensor:
            return
        step = users[0]
        scale, zero_point = self._scale(step)
        scale = (float(scale), int(zero_point))
        self._swap(node, made.from_reference(layer, *scale) if hasattr(made, "from_reference") else made(*scale))
        node.args = (source, *node.args[1:])
        self._put(node, step)

    # --- functions and methods ----------------------------------------------------------------------------------------

    def _function(self, node):
        if node.target in _SIZES or (node.target is getattr and node.args[1] in _SIZES):
            source = _codes(node.args[0])
            if source is not None:
                node.args = (source, *node.args[1:])
        elif node.name not in self.observed or not node.args:
            return
        elif node.target in _WEIGHTED:
            self._weighted(node)
        elif node.target in _SUMS:
            self._sum(node)
        elif node.target in _SCALED_FUNCTIONS:
            self._scaled(node)
        else:
            self._on_codes(node)

    def _on_codes(self, node):
        """Operators that take codes as they take numbers: they only move or choose them, or have a fixed range."""
        config = self.configs.get(head_of(node, self.modules))
        users = list(node.users)
        if config is None or len(users) != 1 or users[0].target is not flambeau.quantize_per_tensor:
            return
        given = node.args[0]
        sources = [_codes(part) for part in (given if isinstance(given, (list, tuple)) else [given])]
        if any(source is None for source in sources) or config.observation_type is \
                ObservationType.INPUT_OUTPUT_NOT_OBSERVED:
            return
        first = type(given)(sources) if isinstance(given, (list, tuple)) else sources[0]
        node.args = (first, *node.args[1:])
        self._put(node, users[0])

    def _sum(self, node):
        relu, step = self._after(node)
        plain, with_relu = _SUMS[node.target]
        if step is None or (relu is not None and with_relu is None):
            return
        operands = [_codes(arg) if isinstance(arg, Node) else arg for arg in node.args]
        if len(operands) != 2 or any(arg is None for arg in operands):
            return
        of_codes = all(isinstance(arg, Node) for arg in operands)
        with self.graph.inserting_before(step):
            scale = tuple(step.args[1:3]) if of_codes else ()
            made = self.graph.call_function(with_relu if relu is not None else plain, (*operands, *scale))
        step.replace_all_uses_with(made)
        for old in filter(None, (step, relu, node)):
            self.graph.erase_node(old)

    def _scaled(self, node):
        users, source = list(node.users), _codes(node.args[0])
        if source is None or len(users) != 1 or users[0].target is not flambeau.quantize_per_tensor:
            return
        made = _SCALED_FUNCTIONS[node.target]
        rest = dict(node.kwargs)
        step = users[0]
        rest["output_scale"], rest["output_zero_point"] = step.args[1:3]
        node.target, node.args, node.kwargs = made, (source, *node.args[1:]), _told(made, rest)
        self._put(node, step)

    def _weighted(self, node):
        packing, plain, with_relu = _WEIGHTED[node.target]
        relu, step = self._after(node)
        given = _arguments(node)
        source, weight = _codes(given.pop("input")), _codes(given.pop("weight"))
        if source is None or weight is None or weight.target not in _QUANTIZING or step is None \
                or (relu is not None and with_relu is None):
            return
        packed = self._pack(packing, weight, given)
        with self.graph.inserting_before(node):
            name = f"_packed_weight_{self.packed}"
            self.packed += 1
            setattr(self.model, name, packed)
            kept = self.graph.create_node("get_attr", name)
        if relu is not None:
            relu.replace_all_uses_with(node)
            self.graph.erase_node(relu)
        for scale in step.args[1:3]:
            node.prepend(scale)
        node.target = getattr(_ops, with_relu if relu is not None else plain)
        node.args, node.kwargs = (source, kept, *step.args[1:3]), {}
        self._put(node, step)

    def _pack(self, packing, weight, given):
        def value(arg):
            return _attribute_of(self.model, arg.target) if isinstance(arg, Node) else arg

        tensor, *codes = (value(arg) for arg in weight.args)
        quantized = weight.target(tensor.detach(), *codes)
        bias = value(given.pop("bias"))
        return getattr(_ops, packing)(quantized, bias if bias is None else bias.detach(), *given.values())


def _attribute_of(model, path):
    for name in path.split("."):
        model = getattr(model, name)
    return model


def _told(function, arguments):
    """The arguments by the names that an operator on codes has for them."""
    return {name: value for name, value in arguments.items() if name not in ("inplace", "training")} \
        if function is not _ops.dropout else {}


def _arguments(node):
    """{name: argument} of a convolution or linear layer as a function, in the order in which its weight is packed."""
    names = {"linear": ("input", "weight", "bias")}.get(
        node.target.__name__, ("input", "weight", "bias", "stride", "padding", "dilation", "groups"))
    if node.target.__name__.startswith("conv_transpose"):
        names = ("input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation")
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    dims = int(node.target.__name__[-2]) if len(names) > 3 else 0
    usual = {"bias": None, "stride": 1, "padding": 0, "output_padding": 0, "dilation": 1, "groups": 1}
    order = ("input", "weight", "bias", "stride", "padding", "output_padding", "dilation", "groups")
    found = {name: given.get(name, usual.get(name)) for name in order if name in names}
    return {name: [value] * dims if name in ("stride", "padding", "output_padding", "dilation")
            and isinstance(value, int) else value for name, value in found.items()}
