"""What observers and fake quantization share: ranges of codes, and classes with some arguments given."""

import functools
import typing
from functools import partial
from warnings import warn

import flambeau

from ..._shown import shown
from .quant_type import QuantType

_RANGES = {  # dtype -> the least and the largest code, and those of half the range
    flambeau.qint8: (-128, 127, -64, 63), flambeau.int8: (-128, 127, -64, 63),
    flambeau.quint8: (0, 255, 0, 127), flambeau.uint8: (0, 255, 0, 127),
    flambeau.qint32: (-2**31, 2**31 - 1) * 2, flambeau.int32: (-2**31, 2**31 - 1) * 2,
    flambeau.int16: (-2**15, 2**15 - 1) * 2, flambeau.quint4x2: (0, 15, 0, 15),
}


class PartialWrapper:
    """A class with some of its arguments given; arguments of `with_callable_args` are computed in each call."""

    def __init__(self, p):
        self.p = p
        self.callable_args = {}

    def __call__(self, *args, **keywords):
        """An instance."""
        computed = {name: make() for name, make in self.callable_args.items() if name not in keywords}
        return self.p(*args, **computed, **keywords)

    def __repr__(self):
        return repr(self.p) + repr(self.callable_args)

    def with_args(self, **kwargs):
        """The same with further arguments."""
        return with_args(self, **kwargs)

    def with_callable_args(self, **kwargs):
        """The same with further arguments, each computed when an instance is made."""
        return with_callable_args(self, **kwargs)


def with_args(cls_or_self, **kwargs):
    """A class with these arguments given.

    >>> import flambeau
    >>> flambeau.ao.quantization.MinMaxObserver.with_args(quant_min=0, quant_max=127)().quant_max
    127
    """
    return PartialWrapper(partial(cls_or_self, **kwargs))


def with_callable_args(cls_or_self, **kwargs):
    """A class with arguments that are computed when an instance is made."""
    found = PartialWrapper(partial(cls_or_self))
    found.callable_args = {**getattr(cls_or_self, "callable_args", {}), **kwargs}
    return found


def check_min_max_valid(min_val, max_val):
    """Whether a range was seen: not empty, not the start's (inf, -inf); a range whose ends are exchanged is refused."""
    if min_val.numel() == 0 or max_val.numel() == 0:
        warn("observer: nothing was seen before the scale was asked for; it is 1, with zero point 0", stacklevel=4)
        return False
    if min_val.numel() == 1 and min_val == float("inf") and max_val == float("-inf"):
        warn("observer: nothing was seen before the scale was asked for; it is 1, with zero point 0", stacklevel=4)
        return False
    if not bool((min_val <= max_val).all()):
        raise AssertionError(f"observer: the least number {min_val} is above the largest {max_val}")
    return True


def calculate_qmin_qmax(quant_min, quant_max, has_customized_qrange, dtype, reduce_range):
    """(least code, largest code) of a dtype, or the given ones; reduce_range halves them."""
    if not has_customized_qrange:
        low, high, half_low, half_high = _RANGES[dtype]
        return (half_low, half_high) if reduce_range else (low, high)
    count = quant_max - quant_min + 1
    most = 2**32 if dtype in (flambeau.qint32, flambeau.int32) else 2**16 if dtype is flambeau.int16 else 256
    if not quant_min <= 0 <= quant_max:
        raise AssertionError(f"observer: 0 must lie between quant_min {quant_min} and quant_max {quant_max}")
    if not 1 < count <= most:
        raise AssertionError(f"observer: {count} codes from {quant_min} to {quant_max} do not fit into {dtype}")
    return (quant_min // 2, quant_max // 2) if reduce_range else (quant_min, quant_max)


# --- what a QConfig says ----------------------------------------------------------------------------------------------

#: a pattern: an operator, a class of modules, the name of a method, or a tuple of these, the last one first
Pattern = typing.Any
#: the node of a pattern, or a tuple of them
NodePattern = typing.Any

_TO_CODES = (flambeau.quint8, flambeau.qint8, flambeau.qint32, flambeau.quint4x2, flambeau.uint8, flambeau.int8,
             flambeau.int16, flambeau.int32)
_BYTES = (flambeau.quint8, flambeau.qint8, flambeau.uint8, flambeau.int8)
_UNDERLYING = {flambeau.quint8: flambeau.uint8, flambeau.qint8: flambeau.int8, flambeau.qint32: flambeau.int32,
               flambeau.quint4x2: flambeau.uint8}


class MatchAllNode:
    """In a pattern: any node."""


def get_combined_dict(default_dict, additional_dict):
    """Both; where a key is in both, the additional value."""
    return {**default_dict, **additional_dict}


def is_per_tensor(qscheme):
    """Whether there is one scale per tensor."""
    return qscheme in (flambeau.per_tensor_affine, flambeau.per_tensor_symmetric)


def is_per_channel(qscheme):
    """Whether there is one scale per channel."""
    return qscheme in (flambeau.per_channel_affine, flambeau.per_channel_symmetric,
                       flambeau.per_channel_affine_float_qparams)


def getattr_from_fqn(obj, fqn):
    """obj.a.b for "a.b"."""
    return functools.reduce(getattr, fqn.split("."), obj)


def to_underlying_dtype(qdtype):
    """The dtype of the codes: uint8 for quint8."""
    if qdtype not in _UNDERLYING and qdtype not in _UNDERLYING.values():
        raise AssertionError(f"to_underlying_dtype: expected a dtype of codes, got {qdtype}")
    return _UNDERLYING.get(qdtype, qdtype)


def get_qparam_dict(observer_or_fake_quant):
    """What an observer has found, as a layer of reference takes it: scheme, dtype, scale, zero point, axis, range."""
    seen = observer_or_fake_quant
    scheme = getattr(seen, "qscheme", None)
    found = {"qscheme": scheme, "dtype": seen.dtype}
    if scheme is None or getattr(seen, "sees_nothing", False):
        return {"qscheme": None, "dtype": seen.dtype}
    if is_per_channel(scheme):
        if scheme is flambeau.per_channel_symmetric:
            found["qscheme"] = flambeau.per_channel_affine
        found["axis"] = seen.ch_axis
    elif scheme is flambeau.per_tensor_symmetric:
        found["qscheme"] = flambeau.per_tensor_affine
    found["scale"], found["zero_point"] = seen.calculate_qparams()
    for name in ("quant_min", "quant_max"):
        if hasattr(seen, name):
            found[name] = getattr(seen, name)
    return found


def activation_dtype(qconfig):
    """The dtype of activations."""
    return qconfig.activation().dtype


def weight_dtype(qconfig):
    """The dtype of weights."""
    return qconfig.weight().dtype


def get_qconfig_dtypes(qconfig):
    """(dtype of activations, of weights, whether activations get their codes in each call)."""
    activation = qconfig.activation()
    return activation.dtype, qconfig.weight().dtype, getattr(activation, "is_dynamic", False)


def activation_is_dynamically_quantized(qconfig):
    """Whether activations get their codes in each call."""
    return get_qconfig_dtypes(qconfig)[2]


def activation_is_statically_quantized(qconfig):
    """Whether activations get codes (or halves) by ranges that were observed beforehand."""
    return activation_dtype(qconfig) in (*_TO_CODES, flambeau.float16) and not activation_is_dynamically_quantized(
        qconfig)


def activation_is_int8_quantized(qconfig):
    """Whether the codes of activations are bytes."""
    return activation_dtype(qconfig) in _BYTES


def activation_is_int32_quantized(qconfig):
    """Whether the codes of activations have 32 bits."""
    return activation_dtype(qconfig) in (flambeau.qint32, flambeau.int32)


def weight_is_quantized(qconfig):
    """Whether weights are codes or halves."""
    return weight_dtype(qconfig) in (*_TO_CODES, flambeau.float16)


def weight_is_statically_quantized(qconfig):
    """Whether weights are codes."""
    return weight_dtype(qconfig) in _TO_CODES


def op_is_int8_dynamically_quantized(qconfig):
    """Whether activations get bytes in each call, and weights are bytes."""
    activation, weight, dynamic = get_qconfig_dtypes(qconfig)
    return activation in (flambeau.quint8, flambeau.uint8) and weight in (flambeau.qint8, flambeau.int8) and dynamic


def get_quant_type(qconfig):
    """The QuantType that a QConfig asks for."""
    activation = qconfig.activation()
    if qconfig.weight().dtype in (*_TO_CODES, flambeau.float16):
        if getattr(activation, "is_dynamic", False):
            return QuantType.DYNAMIC
        if activation.dtype in (*_TO_CODES, flambeau.float16):
            return QuantType.STATIC
        if activation.dtype is flambeau.float32:
            return QuantType.WEIGHT_ONLY
    raise Exception(f"get_quant_type: no way of quantization has activations of {activation.dtype} and weights of "
                    f"{weight_dtype(qconfig)}")


def get_swapped_custom_module_class(custom_module, custom_module_class_mapping, qconfig):
    """The class that takes a custom module's place under a QConfig; the mapping has a dict for each QuantType."""
    kind = get_quant_type(qconfig)
    classes = custom_module_class_mapping.get(kind, {})
    if type(custom_module) not in classes:
        raise AssertionError(f"no class takes the place of {type(custom_module)} under {shown(kind)}")
    return classes[type(custom_module)]


def has_no_children_ignoring_parametrizations(module):
    """Whether there are no modules in it but those that compute its parameters."""
    return not set(module._modules) - {"parametrizations"}
