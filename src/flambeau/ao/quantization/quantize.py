"""Modules of a model are exchanged for quantized ones: for dynamic quantization in one call."""

import copy

import flambeau
from flambeau import nn

from ..nn.quantized import dynamic as dynamic
from .qconfig import QConfig, QConfigDynamic, default_dynamic_qconfig, float16_dynamic_qconfig

_HALF = {nn.Linear: float16_dynamic_qconfig, nn.LSTM: float16_dynamic_qconfig}
_BYTES = {nn.Linear: default_dynamic_qconfig, nn.LSTM: default_dynamic_qconfig}


def get_default_dynamic_quant_module_mappings():
    """{class: the class whose instances take its place}."""
    return {nn.Linear: dynamic.Linear, nn.LSTM: dynamic.LSTM}


def get_dynamic_quant_module_class(float_module_class, additional_dynamic_quant_mapping=None):
    """The class that takes the place of a class of layers."""
    mapping = {**get_default_dynamic_quant_module_mappings(), **(additional_dynamic_quant_mapping or {})}
    if float_module_class not in mapping:
        raise AssertionError(f"dynamic quantization: there is no quantized {float_module_class}")
    return mapping[float_module_class]


def quantize_dynamic(model, qconfig_spec=None, dtype=flambeau.qint8, mapping=None, inplace=False):
    """The model with Linear and LSTM layers whose weights are bytes (qint8) or halves (float16).

    Weights are quantized once, activations for each call. qconfig_spec: a set of classes or names of submodules, or a
    dict from them to a QConfig; by default Linear and LSTM. The model itself stays, unless `inplace`.

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
        known = {flambeau.qint8: _BYTES, flambeau.float16: _HALF}
        if dtype not in known:
            raise ValueError(f"quantize_dynamic: expected dtype qint8 or float16, got {dtype}; give a qconfig_spec for "
                             "others")
        return known[dtype]
    if not isinstance(given, (set, list, tuple)):
        return given
    known = {flambeau.qint8: default_dynamic_qconfig, flambeau.float16: float16_dynamic_qconfig}
    if dtype not in known:
        raise RuntimeError(f"quantize_dynamic: there is no default for dtype {dtype}; give a dict of QConfigs")
    return dict.fromkeys(given, known[dtype])


def propagate_qconfig_(module, qconfig_dict=None, prepare_custom_config_dict=None):
    """Sets `qconfig` on a module and what is in it: by name, else by class, else as the module around it has it."""
    if prepare_custom_config_dict:
        raise NotImplementedError("propagate_qconfig_: prepare_custom_config_dict is not supported")
    _propagate(module, qconfig_dict or {}, None, "")


def _propagate(module, table, inherited, prefix):
    found = table.get(prefix, table.get(type(module), getattr(module, "qconfig", inherited)))
    module.qconfig = found
    for name, child in module.named_children():
        _propagate(child, table, found, f"{prefix}.{name}" if prefix else name)


def convert(module, mapping=None, inplace=False, remove_qconfig=True, is_reference=False,
            convert_custom_config_dict=None, use_precomputed_fake_quant=False):
    """Exchanges modules that have a `qconfig` and a quantized counterpart in `mapping`."""
    if is_reference or convert_custom_config_dict or use_precomputed_fake_quant:
        raise NotImplementedError("convert: is_reference, convert_custom_config_dict and use_precomputed_fake_quant "
                                  "are not supported; dynamic quantization needs none of them")
    if mapping is None:
        raise NotImplementedError("convert: static quantization is not available; quantize_dynamic() exchanges Linear "
                                  "and LSTM layers")
    if not inplace:
        module = copy.deepcopy(module)
    for name, child in module.named_children():
        if type(child) not in mapping:
            convert(child, mapping, inplace=True, remove_qconfig=False)
        setattr(module, name, swap_module(child, mapping))
    if remove_qconfig:
        for part in module.modules():
            part.__dict__.pop("qconfig", None)
    return module


def swap_module(mod, mapping, custom_module_class_mapping=None, use_precomputed_fake_quant=False):
    """The quantized counterpart of a module that has a `qconfig`, with its hooks; other modules as they are."""
    if custom_module_class_mapping or use_precomputed_fake_quant:
        raise NotImplementedError("swap_module: custom classes and precomputed fake quantization are not supported")
    if getattr(mod, "qconfig", None) is None or type(mod) not in mapping:
        return mod
    made = mapping[type(mod)].from_float(mod)
    for hook in mod._forward_pre_hooks.values():
        made.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        made.register_forward_hook(hook)
    made.training = mod.training
    return made


#: what a spec may hold
QConfigAny = QConfig | QConfigDynamic | None
