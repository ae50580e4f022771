"""QConfigMapping: which operators and modules of a graph get which configuration."""

from collections import OrderedDict

import flambeau
from flambeau import nn

from .fake_quantize import FixedQParamsFakeQuantize, default_weight_fake_quant
from .observer import (
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
    default_placeholder_observer,
    default_weight_observer,
)
from .qconfig import (
    QConfig,
    default_quint8_weight_qconfig,
    default_reuse_input_qconfig,
    get_default_qat_qconfig,
    get_default_qconfig,
)

F = nn.functional
_ZERO_TO_ONE = default_fixed_qparams_range_0to1_observer
_MINUS_ONE_TO_ONE = default_fixed_qparams_range_neg1to1_observer
#: operators whose range is known beforehand
_FIXED_QPARAMS_OP_TO_OBSERVER = {
    nn.Hardsigmoid: _ZERO_TO_ONE, F.hardsigmoid: _ZERO_TO_ONE, "hardsigmoid": _ZERO_TO_ONE,
    "hardsigmoid_": _ZERO_TO_ONE, nn.Sigmoid: _ZERO_TO_ONE, flambeau.sigmoid: _ZERO_TO_ONE, "sigmoid": _ZERO_TO_ONE,
    "sigmoid_": _ZERO_TO_ONE, nn.Softmax: _ZERO_TO_ONE, nn.Tanh: _MINUS_ONE_TO_ONE, flambeau.tanh: _MINUS_ONE_TO_ONE,
    "tanh": _MINUS_ONE_TO_ONE, "tanh_": _MINUS_ONE_TO_ONE,
}
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d, F.conv_transpose1d, F.conv_transpose2d,
               F.conv_transpose3d)
#: field -> its key in the form of a dict
_FIELDS = {"global_qconfig": "", "object_type_qconfigs": "object_type",
           "module_name_regex_qconfigs": "module_name_regex", "module_name_qconfigs": "module_name",
           "module_name_object_type_order_qconfigs": "module_name_object_type_order"}


class QConfigMapping:
    """Configurations by place: the whole model, then operators or classes, patterns of names, names, and the n-th
    operator of a module; what is said later in this list counts more. None: not quantized.

    >>> import flambeau
    >>> aoq = flambeau.ao.quantization
    >>> mapping = aoq.QConfigMapping().set_global(aoq.default_qconfig).set_object_type(flambeau.nn.Linear, None)
    >>> mapping.object_type_qconfigs[flambeau.nn.Linear] is None
    True
    """

    def __init__(self):
        self.global_qconfig = None
        self.object_type_qconfigs, self.module_name_regex_qconfigs = OrderedDict(), OrderedDict()
        self.module_name_qconfigs, self.module_name_object_type_order_qconfigs = OrderedDict(), OrderedDict()

    def set_global(self, global_qconfig):
        """For whatever nothing else is said about."""
        self.global_qconfig = global_qconfig
        return self

    def set_object_type(self, object_type, qconfig):
        """For a class of modules, a function, or the name of a method."""
        self.object_type_qconfigs[object_type] = qconfig
        return self

    def set_module_name_regex(self, module_name_regex, qconfig):
        """For modules whose name begins with a match of this regular expression; the first one that matches counts."""
        self.module_name_regex_qconfigs[module_name_regex] = qconfig
        return self

    def set_module_name(self, module_name, qconfig):
        """For the module of this name, and what is in it."""
        self.module_name_qconfigs[module_name] = qconfig
        return self

    def set_module_name_object_type_order(self, module_name, object_type, index, qconfig):
        """For the operator number `index` of this kind in the module of this name."""
        self.module_name_object_type_order_qconfigs[module_name, object_type, index] = qconfig
        return self

    def __repr__(self):
        lines = [f"{type(self).__name__} ("]
        for field in _FIELDS:
            value = getattr(self, field)
            lines.append(f" {field}")
            if isinstance(value, OrderedDict) and value:
                lines += [f"  {key}: {qconfig}" for key, qconfig in value.items()]
            else:
                lines.append(f"  {value}")
        return "\n".join([*lines, ")"])

    def to_dict(self):
        """The same as plain data: {"": qconfig, "object_type": [(type, qconfig)], …}."""
        found = {"": self.global_qconfig}
        for field, key in _FIELDS.items():
            if key:
                found[key] = [(*(k if isinstance(k, tuple) else (k,)), q) for k, q in getattr(self, field).items()]
        return found

    @classmethod
    def from_dict(cls, qconfig_dict):
        """The mapping that `to_dict` has written."""
        made = cls().set_global(qconfig_dict.get("", None))
        for field, key in _FIELDS.items():
            for *where, qconfig in qconfig_dict.get(key, []) if key else []:
                getattr(made, field)[tuple(where) if len(where) > 1 else where[0]] = qconfig
        return made


def _default(qconfig, is_qat):
    weight = default_weight_fake_quant if is_qat else default_weight_observer
    made = QConfigMapping().set_global(qconfig).set_object_type("reshape", default_reuse_input_qconfig)
    for kind in _TRANSPOSED:
        made.set_object_type(kind, QConfig(activation=qconfig.activation, weight=weight))
    for kind in (F.layer_norm, flambeau.layer_norm, nn.LayerNorm):
        made.set_object_type(kind, QConfig(activation=qconfig.activation, weight=default_placeholder_observer))
    made.set_object_type(nn.PReLU, default_quint8_weight_qconfig)
    for kind, observer in _FIXED_QPARAMS_OP_TO_OBSERVER.items():
        seen = FixedQParamsFakeQuantize.with_args(observer=observer) if is_qat else observer
        made.set_object_type(kind, QConfig(activation=seen, weight=weight))
    return made


def get_default_qconfig_mapping(backend="x86", version=0):
    """The mapping with which `prepare_fx` calibrates for a backend."""
    return _default(get_default_qconfig(backend, version), False)


def get_default_qat_qconfig_mapping(backend="x86", version=1):
    """The mapping with which `prepare_qat_fx` trains for a backend."""
    return _default(get_default_qat_qconfig(backend, version), True)
