"""Whole models, module by module: observers are put in, and after calibration or training modules are exchanged for
quantized ones."""

import copy
import inspect
from warnings import warn

import flambeau
from flambeau import nn

from ..nn.intrinsic import _FusedModule
from ..nn.quantized import FloatFunctional, QFunctional
from .fake_quantize import FakeQuantizeBase
from .observer import ObserverBase
from .qconfig import (
    QConfig,
    QConfigDynamic,
    default_dynamic_qconfig,
    float16_dynamic_qconfig,
    float_qparams_weight_only_qconfig,
    float_qparams_weight_only_qconfig_4bit,
)
from .quantization_mappings import (
    _DEFAULT_CUSTOM_CONFIG_DICT,
    DEFAULT_MODULE_TO_ACT_POST_PROCESS,
    get_default_dynamic_quant_module_mappings,
    get_default_qat_module_mappings,
    get_default_qconfig_propagation_list,
    get_default_static_quant_module_mappings,
    get_default_static_quant_reference_module_mappings,
    no_observer_set,
)
from .stubs import DeQuantStub, QuantWrapper
from .utils import get_qparam_dict, has_no_children_ignoring_parametrizations, is_per_channel

_kind = nn.utils.parametrize.type_before_parametrizations
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)

#: what `qconfig` may be
QConfigAny = QConfig | QConfigDynamic | None

_CELLS = (nn.LSTM, nn.GRU, nn.LSTMCell, nn.RNNCell, nn.GRUCell)
#: dtype of the weights -> what `quantize_dynamic` does unless it is told which modules
_DYNAMIC = {
    flambeau.qint8: dict.fromkeys((nn.Linear, *_CELLS), default_dynamic_qconfig),
    flambeau.float16: dict.fromkeys((nn.Linear, *_CELLS), float16_dynamic_qconfig),
    flambeau.quint8: dict.fromkeys((nn.EmbeddingBag, nn.Embedding), float_qparams_weight_only_qconfig),
    flambeau.quint4x2: {nn.EmbeddingBag: float_qparams_weight_only_qconfig_4bit},
}


def get_default_custom_config_dict():
    """The classes that `prepare` exchanges for observable ones (LSTM, MultiheadAttention), and `convert` those."""
    return _DEFAULT_CUSTOM_CONFIG_DICT


# --- which module has which configuration -----------------------------------------------------------------------------

def propagate_qconfig_(module, qconfig_dict=None, prepare_custom_config_dict=None):
    """Sets `qconfig` on a module and what is in it: its own, else by name, by class, else as the module around it.

    Modules that `prepare_custom_config_dict` names under "non_traceable_module_name" or "non_traceable_module_class"
    are left as they are.
    """
    custom = prepare_custom_config_dict or {}
    left = (custom.get("non_traceable_module_name", []), custom.get("non_traceable_module_class", []))
    _propagate(module, qconfig_dict or {}, None, "", left)


def _propagate(module, table, inherited, prefix, left):
    kind = _kind(module)
    found = getattr(module, "qconfig", table.get(prefix, table.get(kind, inherited)))
    if kind in _TRANSPOSED and found is not None and is_per_channel(getattr(found.weight(), "qscheme", None)):
        raise AssertionError(f"propagate_qconfig_: {prefix or 'the module'} is a {kind.__name__}, whose weight cannot "
                             "have one scale per channel; give it a qconfig with default_weight_observer")
    module.qconfig = found
    for name, child in module.named_children():
        path = f"{prefix}.{name}" if prefix else name
        if path not in left[0] and type(child) not in left[1]:
            _propagate(child, table, found, path, left)


# --- observers --------------------------------------------------------------------------------------------------------

def is_activation_post_process(module):
    """Whether a module is an observer or a fake quantization."""
    return isinstance(module, (ObserverBase, FakeQuantizeBase))


def _observer_forward_hook(self, input, output):
    return self.activation_post_process(output)


def _observer_forward_pre_hook(self, input):
    return self.activation_post_process(input[0])


def _is_memoryless(qconfig):
    """Whether activations are fake quantized by each call's own range: then before the layer, not after it."""
    seen = qconfig.activation()
    return isinstance(seen, FakeQuantizeBase) and \
        getattr(getattr(seen, "activation_post_process", None), "averaging_constant", None) == 1


def _wanted(module):
    return getattr(module, "qconfig", None) is not None


def _observer(module, special=None):
    made = (special or module.qconfig.activation)()
    devices = {p.device for p in module.parameters()} | {b.device for b in module.buffers()}
    return made.to(devices.pop()) if len(devices) == 1 else made


def _observe(module, special=None):
    """Gives a module that has a qconfig an observer, and the hook that shows it what the module computes."""
    if not _wanted(module) or isinstance(module, DeQuantStub):
        return
    module.add_module("activation_post_process", _observer(module, special))
    if _is_memoryless(module.qconfig):
        module.register_forward_pre_hook(_observer_forward_pre_hook, prepend=True)
    else:
        module.register_forward_hook(_observer_forward_hook, prepend=True)


def _add_observer_(module, qconfig_propagation_list=None, non_leaf_module_list=None, device=None,
                   custom_module_class_mapping=None):
    """Observers for whatever has a qconfig: layers of the list, fused ones, FloatFunctionals, custom modules."""
    observed = get_default_qconfig_propagation_list() if qconfig_propagation_list is None else qconfig_propagation_list
    custom = custom_module_class_mapping or {}
    for name, child in module.named_children():
        kind = _kind(child)
        if kind is nn.Dropout:
            continue
        if issubclass(kind, (FloatFunctional, QFunctional)):
            if _wanted(child):
                child.activation_post_process = _observer(child)
        elif isinstance(child, _FusedModule) or kind in (non_leaf_module_list or ()):
            _observe(child)
        elif child.training and kind in DEFAULT_MODULE_TO_ACT_POST_PROCESS:
            _observe(child, DEFAULT_MODULE_TO_ACT_POST_PROCESS[kind])
        elif _wanted(child) and kind in custom:
            made = custom[kind].from_float(child)
            setattr(module, name, made)
            if custom[kind] not in no_observer_set():
                _observe(made)
        else:
            _add_observer_(child, observed, non_leaf_module_list, device, custom)
    if has_no_children_ignoring_parametrizations(module) and not isinstance(module, nn.Sequential) \
            and _kind(module) in observed:
        _observe(module)


def _get_observer_dict(mod, target_dict, prefix=""):
    """Puts every observer of activations into `target_dict`, under its name."""
    for name, part in mod.named_modules():
        if hasattr(part, "activation_post_process") and not is_activation_post_process(part):
            path = ".".join(filter(None, (prefix, name, "activation_post_process")))
            target_dict[path] = part.activation_post_process


def add_quant_dequant(module):
    """Puts each layer that has a qconfig between a QuantStub and a DeQuantStub; returns the changed model."""
    if has_no_children_ignoring_parametrizations(module) and getattr(module, "qconfig", None):
        return QuantWrapper(module)
    for name, child in module.named_children():
        module._modules[name] = add_quant_dequant(child)
    return module


def prepare(model, inplace=False, allow_list=None, observer_non_leaf_module_list=None,
            prepare_custom_config_dict=None):
    """The model with observers, to be shown typical data before `convert`.

    allow_list: the classes to observe (default: those that have a quantized counterpart).
    observer_non_leaf_module_list: classes observed as a whole although they contain modules.
    prepare_custom_config_dict: {"float_to_observed_custom_module_class": {class: its observable class}}.

    >>> import flambeau
    >>> aoq = flambeau.ao.quantization
    >>> model = aoq.QuantWrapper(flambeau.nn.Linear(2, 2)).eval()
    >>> model.qconfig = aoq.default_qconfig
    >>> prepared = aoq.prepare(model)
    >>> _ = prepared(flambeau.ones(1, 2))
    >>> prepared.quant.activation_post_process
    MinMaxObserver(min_val=1.0, max_val=1.0)
    """
    custom = get_default_custom_config_dict() if prepare_custom_config_dict is None else prepare_custom_config_dict
    if not inplace:
        model = copy.deepcopy(model)
    propagate_qconfig_(model, qconfig_dict=None)
    if not any(_wanted(part) for part in model.modules()):
        warn("prepare: no module has a qconfig, so nothing is observed; set model.qconfig first", stacklevel=2)
    _add_observer_(model, allow_list, observer_non_leaf_module_list,
                   custom_module_class_mapping=custom.get("float_to_observed_custom_module_class", {}))
    return model


def prepare_qat(model, mapping=None, inplace=False):
    """The model with fake quantization of weights and activations, for training; it must be in training mode."""
    if not model.training:
        raise AssertionError("prepare_qat: expected a model in training mode; call model.train() first")
    mapping = get_default_qat_module_mappings() if mapping is None else mapping
    if not inplace:
        model = copy.deepcopy(model)
    propagate_qconfig_(model, qconfig_dict=None)
    convert(model, mapping=mapping, inplace=True, remove_qconfig=False)
    return prepare(model, observer_non_leaf_module_list=set(mapping.values()), inplace=True)


# --- exchanging modules -----------------------------------------------------------------------------------------------

def convert(module, mapping=None, inplace=False, remove_qconfig=True, is_reference=False,
            convert_custom_config_dict=None, use_precomputed_fake_quant=False):
    """Exchanges modules that have a `qconfig` and a counterpart in `mapping`; observers give their scales, and go.

    is_reference: layers that compute in floats with weights that went through their codes.
    convert_custom_config_dict: {"observed_to_quantized_custom_module_class": {observable class: quantized class}}.
    use_precomputed_fake_quant: weights get the scales that training has found, instead of those of their values now.
    """
    if not inplace:
        module = copy.deepcopy(module)
    if mapping is None:
        mapping = (get_default_static_quant_reference_module_mappings if is_reference
                   else get_default_static_quant_module_mappings)()
    if convert_custom_config_dict is None:
        convert_custom_config_dict = get_default_custom_config_dict()
    custom = convert_custom_config_dict.get("observed_to_quantized_custom_module_class", {})
    _convert(module, mapping, custom, use_precomputed_fake_quant)
    if remove_qconfig:
        _remove_qconfig(module)
    return module


def _convert(module, mapping, custom, precomputed):
    for name, child in module.named_children():
        if not isinstance(child, _FusedModule) and _kind(child) not in custom:
            _convert(child, mapping, custom, precomputed)
        module._modules[name] = swap_module(child, mapping, custom, precomputed)


def _remove_qconfig(module):
    for part in list(module.modules()):
        part.__dict__.pop("qconfig", None)
        if is_activation_post_process(getattr(part, "activation_post_process", None)) \
                and not is_activation_post_process(part):  # a fake quantization needs its observer
            del part.activation_post_process
            for hooks in (part._forward_hooks, part._forward_pre_hooks):
                for key in [key for key, hook in hooks.items() if hook in _HOOKS]:
                    del hooks[key]


_HOOKS = (_observer_forward_hook, _observer_forward_pre_hook)


def swap_module(mod, mapping, custom_module_class_mapping, use_precomputed_fake_quant=False):
    """The counterpart of a module that has a `qconfig`, with its hooks; other modules as they are."""
    if not _wanted(mod):
        return mod
    custom, kind = custom_module_class_mapping or {}, _kind(mod)
    if kind in custom:
        made = custom[kind].from_observed(mod)
    elif kind in mapping:
        made = _exchanged(mod, mapping[kind], use_precomputed_fake_quant)
    else:
        return mod
    for hook in mod._forward_pre_hooks.values():
        if hook not in _HOOKS:
            made.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        if hook not in _HOOKS:
            made.register_forward_hook(hook)
    devices = {p.device for p in mod.parameters()} | {b.device for b in mod.buffers()}
    return made.to(devices.pop()) if len(devices) == 1 and made is not mod else made


def _exchanged(mod, kind, precomputed):
    if getattr(kind, "_IS_REFERENCE", False):
        seen = mod.qconfig.weight()
        seen(mod.weight)
        return kind.from_float(mod, get_qparam_dict(seen))
    if "use_precomputed_fake_quant" in inspect.signature(kind.from_float).parameters:
        return kind.from_float(mod, use_precomputed_fake_quant=precomputed)
    return kind.from_float(mod)


# --- in one call ------------------------------------------------------------------------------------------------------

def quantize(model, run_fn, run_args, mapping=None, inplace=False):
    """Static quantization in one call: prepare, run_fn(model, *run_args) to calibrate, convert."""
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    prepare(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, mapping, inplace=True)


def quantize_qat(model, run_fn, run_args, inplace=False):
    """Quantization-aware training in one call: prepare_qat, run_fn(model, *run_args) to train, convert."""
    if not inplace:
        model = copy.deepcopy(model)
    model.train()
    prepare_qat(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, inplace=True)


def quantize_dynamic(model, qconfig_spec=None, dtype=flambeau.qint8, mapping=None, inplace=False):
    """The model with layers whose weights are codes or halves, and whose activations get codes in each call.

    qconfig_spec: a set of classes or names of submodules, or a dict from them to a QConfig; by default Linear and the
    recurrent layers (dtype qint8 or float16), Embedding and EmbeddingBag (quint8), EmbeddingBag (quint4x2). The model
    itself stays, unless `inplace`.

    >>> import flambeau
    >>> model = flambeau.nn.Sequential(flambeau.nn.Linear(4, 3), flambeau.nn.ReLU())
    >>> flambeau.ao.quantization.quantize_dynamic(model)
    Sequential(
      (0): DynamicQuantizedLinear(in_features=4, out_features=3, dtype=torch.qint8, qscheme=torch.per_tensor_affine)
      (1): ReLU()
    )
    """
    spec = _spec(qconfig_spec, dtype)
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    propagate_qconfig_(model, spec)
    return convert(model, get_default_dynamic_quant_module_mappings() if mapping is None else mapping, inplace=True)


def _spec(given, dtype):
    if given is None:
        if dtype not in _DYNAMIC:
            raise ValueError(f"quantize_dynamic: there is no default for dtype {dtype}, only for "
                             f"{', '.join(map(str, _DYNAMIC))}; give a dict of QConfigs")
        return _DYNAMIC[dtype]
    if not isinstance(given, (set, list, tuple)):
        return given
    if dtype not in _DYNAMIC:
        raise RuntimeError(f"quantize_dynamic: there is no default for dtype {dtype}; give a dict of QConfigs")
    return dict.fromkeys(given, next(iter(_DYNAMIC[dtype].values())))
