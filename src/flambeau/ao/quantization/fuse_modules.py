"""Fusing: layers that follow each other in a model become one, before it is calibrated or trained."""

import copy

from flambeau import nn

from .fuser_method_mappings import get_fuser_method
from .utils import getattr_from_fqn

_kind = nn.utils.parametrize.type_before_parametrizations


def fuse_known_modules(mod_list, is_qat, additional_fuser_method_mapping=None):
    """[the fused layer, an Identity for each of the others]; hooks before the first and after the last one stay."""
    fuser = get_fuser_method(tuple(_kind(mod) for mod in mod_list), additional_fuser_method_mapping)
    fused = fuser(is_qat, *mod_list)
    first, last = mod_list[0], mod_list[-1]
    for hook in first._forward_pre_hooks.values():
        fused.register_forward_pre_hook(hook)
    first._forward_pre_hooks.clear()
    for hook in last._forward_hooks.values():
        fused.register_forward_hook(hook)
    last._forward_hooks.clear()
    return [fused, *(nn.Identity().train(first.training) for _ in mod_list[1:])]


def _put(model, name, module):
    owner, _, own_name = name.rpartition(".")
    setattr(getattr_from_fqn(model, owner) if owner else model, own_name, module)


def _fuse(model, is_qat, groups, inplace, fuser_func, custom):
    if not inplace:
        model = copy.deepcopy(model)
    if groups and isinstance(groups[0], str):
        groups = [groups]
    more = (custom or {}).get("additional_fuser_method_mapping", {})
    for names in groups:
        found = fuser_func([getattr_from_fqn(model, name) for name in names], is_qat, more)
        for name, module in zip(names, found, strict=True):
            _put(model, name, module)
    return model


def fuse_modules(model, modules_to_fuse, inplace=False, fuser_func=fuse_known_modules, fuse_custom_config_dict=None):
    """Fuses the named layers, in evaluation mode: conv+bn, conv+bn+relu, conv+relu, linear+relu, linear+bn, bn+relu.

    modules_to_fuse: a list of names, or a list of such lists. The first named layer becomes the fused one, the others
    Identity. A batch norm is folded into the weights.

    >>> import flambeau
    >>> nn = flambeau.nn
    >>> model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU()).eval()
    >>> flambeau.ao.quantization.fuse_modules(model, ["0", "1", "2"])
    Sequential(
      (0): ConvReLU2d(
        (0): Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1))
        (1): ReLU()
      )
      (1): Identity()
      (2): Identity()
    )
    """
    return _fuse(model, False, modules_to_fuse, inplace, fuser_func, fuse_custom_config_dict)


def fuse_modules_qat(model, modules_to_fuse, inplace=False, fuser_func=fuse_known_modules,
                     fuse_custom_config_dict=None):
    """Fuses the named layers for quantization-aware training: batch norms stay layers, and train on."""
    return _fuse(model, True, modules_to_fuse, inplace, fuser_func, fuse_custom_config_dict)
