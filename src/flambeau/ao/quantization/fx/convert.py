"""Observers become steps through codes and back, and weights go through theirs: the graph of reference."""

import flambeau

from ....fx import Node
from ...nn.intrinsic import _FusedModule
from ..quant_type import QuantType
from ..utils import get_qparam_dict, is_per_channel
from .fuse import put
from .prepare import supported
from .qconfigs import observes

_INT_CODES = (flambeau.quint8, flambeau.qint8, flambeau.qint32, flambeau.quint4x2)


def convert(model, state, custom, backend_config):
    """Turns an observed graph into that of reference, in place."""
    modules = dict(model.named_modules(remove_duplicate=False))
    _observe_weights(model.graph, modules)
    kept = _kept_codes(model.graph, state["custom"])
    for node in list(model.graph.nodes):
        if node.op == "call_module" and observes(modules.get(node.target)):
            _through_codes(model, node, modules[node.target], state, kept)
    _numbers_of_inputs(model.graph, state["custom"].input_quantized_indexes)
    classes = custom.observed_to_quantized_mapping.get(QuantType.STATIC, {})
    for node in list(model.graph.nodes):
        if node.op != "call_module" or node.name not in state["observed"]:
            continue
        if type(modules[node.target]) in classes:
            _quantized_custom(model, node, modules, classes)
        elif state["qconfigs"].get(node.name) is not None:
            _reference(model, node.target, modules[node.target], state["qconfigs"][node.name], backend_config)
    model.graph.eliminate_dead_code()
    model.delete_all_unused_submodules()
    model.graph.lint()
    model.recompile()
    return model


def _observe_weights(graph, modules):
    """Shows the weights of functions to their observers, which no calibration has to have run for."""
    for node in graph.nodes:
        if node.op == "call_module" and observes(modules.get(node.target)) and node.args[0].op == "get_attr":
            owner, _, name = node.args[0].target.rpartition(".")
            modules[node.target](getattr(modules[owner], name).detach())


def _numbers_of_inputs(graph, indexes):
    """Arguments that are codes become numbers, so that the graph of reference computes in floats."""
    places = [node for node in graph.nodes if node.op == "placeholder"]
    for node in [places[k] for k in indexes]:
        users = list(node.users)
        with graph.inserting_after(node):
            back = graph.call_method("dequantize", (node,))
        for user in users:
            user.replace_input_with(node, back)


def _kept_codes(graph, custom):
    """Observers whose codes the model gives as they are."""
    given = next(iter(reversed(graph.nodes))).args[0]
    if not custom.output_quantized_indexes:
        return set()
    parts = list(given) if isinstance(given, (list, tuple)) else [given]
    if not isinstance(given, (list, tuple)) or (custom.output_quantized_indexes == [0] and len(parts) == 1):
        return set(parts)
    return {parts[k] for k in custom.output_quantized_indexes}


def _prefix(node, state):
    """The beginning of the names of scale and zero point: the observed module's, or "…_input" of its first user."""
    source, ending = node.args[0], ""
    if state["qconfigs"].get(source.name) is None:
        users = [user for user in node.users if user.op != "output"]
        source, ending = (users[0] if users else source), "_input"
    path = state["scopes"].get(source.name, ("", None))[0]
    return path + ending


def _attribute(model, graph, prefix, value):
    prefix, k = prefix.replace(".", "_"), 0
    while hasattr(model, f"{prefix}{k}"):
        k += 1
    model.register_buffer(f"{prefix}{k}", value)
    return graph.create_node("get_attr", f"{prefix}{k}")


def _through_codes(model, node, observer, state, kept):
    """x -> dequantize(quantize(x, scale, zero_point)); nothing where the observer asks for floats."""
    graph, source, dtype = model.graph, node.args[0], observer.dtype
    with graph.inserting_before(node):
        if getattr(observer, "is_dynamic", False) and dtype in _INT_CODES:
            reduced = flambeau.backends.quantized.engine in ("fbgemm", "x86")
            made = graph.call_function(flambeau.quantize_per_tensor_dynamic, (source, dtype, reduced))
        elif dtype is flambeau.float16:
            made = graph.call_method("to", (source, dtype))
        elif dtype in _INT_CODES:
            made = _static(model, graph, source, observer, _prefix(node, state))
        else:
            node.replace_all_uses_with(source)
            graph.erase_node(node)
            return
        back = made if node in kept else graph.call_method("dequantize", (made,))
    node.replace_all_uses_with(back)
    graph.erase_node(node)


def _static(model, graph, source, observer, prefix):
    scale, zero_point = observer.calculate_qparams()
    if not is_per_channel(observer.qscheme):
        scale, zero_point = flambeau.tensor(float(scale)), flambeau.tensor(int(zero_point))
    scale = _attribute(model, graph, prefix + "_scale_", scale.detach().clone())
    zero_point = _attribute(model, graph, prefix + "_zero_point_", zero_point.detach().clone())
    if is_per_channel(observer.qscheme):
        return graph.call_function(flambeau.quantize_per_channel,
                                   (source, scale, zero_point, observer.ch_axis, observer.dtype))
    return graph.call_function(flambeau.quantize_per_tensor, (source, scale, zero_point, observer.dtype))


def _quantized_custom(model, node, modules, classes):
    """A custom module takes codes and gives codes: the steps into numbers before it, and into codes after it, go."""
    made = classes[type(modules[node.target])].from_observed(modules[node.target])
    put(model, node.target, made)
    node.args = tuple(arg.args[0] if isinstance(arg, Node) and arg.target == "dequantize" else arg
                      for arg in node.args)
    for user in list(node.users):
        if user.target is flambeau.quantize_per_tensor:
            user.replace_all_uses_with(node)
            model.graph.erase_node(user)


def _reference(model, path, module, qconfig, backend_config):
    """The layer of reference in the place of a layer whose weight gets codes."""
    kind = type(module)
    config = backend_config._pattern_complex_format_to_config.get(kind)
    if not supported(qconfig, backend_config, kind):
        return
    layer, seen = module, None
    if hasattr(module, "weight_fake_quant"):
        layer, seen = module.to_float(), module.weight_fake_quant
        put(model, path, layer)
    fused = isinstance(layer, _FusedModule)
    inner = layer[0] if fused else layer
    config = backend_config._pattern_complex_format_to_config.get(type(inner)) or config
    made_of = config.reference_quantized_module
    if made_of is None or not isinstance(inner, config.root_module):
        return
    made = made_of.from_float(inner, _codes_of(inner, qconfig, seen))
    made.train(inner.training)
    if fused:
        layer[0] = made
    else:
        put(model, path, made)


def _codes_of(layer, qconfig, seen):
    """What the weights' observer finds: for one weight, or {name: …} for recurrent layers."""
    def found(weight):
        observer = qconfig.weight() if seen is None else seen
        if observer.dtype in _INT_CODES:
            observer(weight.detach())
        return get_qparam_dict(observer)

    if hasattr(layer, "weight"):
        return found(layer.weight)
    return {name: found(weight) for name, weight in layer.named_parameters() if name.startswith("weight")}
