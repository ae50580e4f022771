"""Quantization of whole models by their graph: traced, observed, and rewritten, without changes to the model's code."""

import copy

from .backend_config import BackendConfig, get_native_backend_config
from .fx.convert import convert as _convert
from .fx.custom_config import ConvertCustomConfig, FuseCustomConfig, PrepareCustomConfig
from .fx.fuse import fuse as _fuse
from .fx.graph_module import FusedGraphModule, ObservedGraphModule, QuantizedGraphModule
from .fx.lower import lower as _lower
from .fx.prepare import ATTRIBUTES
from .fx.prepare import prepare as _prepare
from .fx.tracer import QuantizationTracer
from .qconfig_mapping import QConfigMapping
from .quantize import _remove_qconfig


def _as(kind, given):
    """A configuration, from its form as a dict, or an empty one."""
    if given is None:
        return kind()
    return kind.from_dict(given) if isinstance(given, dict) else given


def _backend(given):
    return get_native_backend_config() if given is None else _as(BackendConfig, given)


def _traced(model, custom):
    """(graph module of the model, {name of a node: (path of the module it is in, its class)})."""
    classes = [*custom.non_traceable_module_classes,
               *(kind for classes in custom.float_to_observed_mapping.values() for kind in classes)]
    tracer = QuantizationTracer(custom.non_traceable_module_names, classes)
    graph = tracer.trace(model)
    return FusedGraphModule(model, graph, custom.preserved_attributes), tracer.node_name_to_scope


def fuse_fx(model, fuse_custom_config=None, backend_config=None):
    """The model as a graph in which layers that are computed together are one; in evaluation mode.

    >>> import flambeau
    >>> nn = flambeau.nn
    >>> from flambeau.ao.quantization.quantize_fx import fuse_fx
    >>> model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU()).eval()
    >>> [str(node) for node in fuse_fx(model).graph.nodes]
    ['input_1', '_0', 'output']
    """
    custom = PrepareCustomConfig().set_preserved_attributes(
        _as(FuseCustomConfig, fuse_custom_config).preserved_attributes)
    model = copy.deepcopy(model)
    return _fuse(_traced(model, custom)[0], False, _backend(backend_config))


def _prepared(model, qconfig_mapping, is_qat, example_inputs, prepare_custom_config, backend_config):
    if not isinstance(example_inputs, (tuple, list)):
        raise AssertionError(f"prepare_fx: example_inputs must be a tuple of the model's arguments, got "
                             f"{type(example_inputs).__name__}")
    custom = _as(PrepareCustomConfig, prepare_custom_config)
    backend = _backend(backend_config)
    graph_module, scopes = _traced(copy.deepcopy(model), custom)
    _fuse(graph_module, is_qat, backend)
    state = _prepare(graph_module, _as(QConfigMapping, qconfig_mapping), is_qat, scopes, custom, backend)
    found = ObservedGraphModule(graph_module, graph_module.graph, custom.preserved_attributes)
    found.meta[ATTRIBUTES] = state
    return found


def prepare_fx(model, qconfig_mapping, example_inputs, prepare_custom_config=None, _equalization_config=None,
               backend_config=None):
    """The model as a graph with observers, to be shown typical data before `convert_fx`; in evaluation mode.

    example_inputs: a tuple of arguments (PyTorch's signature; the graph is traced without them).

    >>> import flambeau
    >>> aoq = flambeau.ao.quantization
    >>> from flambeau.ao.quantization.quantize_fx import convert_fx, prepare_fx
    >>> x = flambeau.randn(4, 3)
    >>> model = flambeau.nn.Sequential(flambeau.nn.Linear(3, 2), flambeau.nn.ReLU()).eval()
    >>> prepared = prepare_fx(model, aoq.get_default_qconfig_mapping(), (x,))
    >>> _ = prepared(x)
    >>> type(convert_fx(prepared).get_submodule("0")).__name__
    'LinearReLU'
    """
    if _equalization_config is not None:
        raise NotImplementedError("prepare_fx: _equalization_config is not supported")
    return _prepared(model, qconfig_mapping, False, example_inputs, prepare_custom_config, backend_config)


def prepare_qat_fx(model, qconfig_mapping, example_inputs, prepare_custom_config=None, backend_config=None):
    """The model as a graph with fake quantization, for training; it must be in training mode."""
    return _prepared(model, qconfig_mapping, True, example_inputs, prepare_custom_config, backend_config)


def _converted(graph_module, convert_custom_config, remove_qconfig, qconfig_mapping, backend_config, to_reference):
    state = graph_module.meta.get(ATTRIBUTES)
    if state is None:
        raise AssertionError("convert_fx: expected a model that prepare_fx or prepare_qat_fx has made")
    custom, backend = _as(ConvertCustomConfig, convert_custom_config), _backend(backend_config)
    made = copy.deepcopy(graph_module)
    state = made.meta.pop(ATTRIBUTES)
    if qconfig_mapping is not None:
        _without(made, state, _as(QConfigMapping, qconfig_mapping))
    _convert(made, state, custom, backend)
    if not to_reference:
        _lower(made, state, backend)
    if remove_qconfig:
        _remove_qconfig(made)
    kept = set(custom.preserved_attributes) | made.preserved_attr_names
    return QuantizedGraphModule(made, made.graph, kept)


def _without(model, state, mapping):
    """Layers whose name or class the mapping of `convert_fx` sets to None stay in floats."""
    for node in model.graph.nodes:
        if node.op == "call_module" and state["qconfigs"].get(node.name) is not None:
            kind = type(model.get_submodule(node.target))
            said = (mapping.module_name_qconfigs.get(node.target, 0), mapping.object_type_qconfigs.get(kind, 0))
            if None in said:
                state["qconfigs"][node.name] = None
                state["observed"].discard(node.name)


def convert_fx(graph_module, convert_custom_config=None, _remove_qconfig=True, qconfig_mapping=None,
               backend_config=None, keep_original_weights=False):
    """The model on codes, from one that `prepare_fx` (after calibration) or `prepare_qat_fx` (after training) made."""
    if keep_original_weights:
        raise NotImplementedError("convert_fx: keep_original_weights is not supported; keep the prepared model")
    return _converted(graph_module, convert_custom_config, _remove_qconfig, qconfig_mapping, backend_config, False)


def convert_to_reference_fx(graph_module, convert_custom_config=None, _remove_qconfig=True, qconfig_mapping=None,
                            backend_config=None):
    """The model of reference: it computes in floats, and takes numbers through their codes where `convert_fx` would."""
    return _converted(graph_module, convert_custom_config, _remove_qconfig, qconfig_mapping, backend_config, True)
