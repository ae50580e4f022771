"""Quantized tensors in files: a storage of codes, and the scheme with its scale; read back with every part checked."""

import flambeau

from .._quantized.schemes import SCHEMES
from .._quantized.tensor import CODES, PerChannel, PerTensor, wrap
from .._shown import shown
from .extent import PickleError
from .known import checked as _checked
from .pickle_reader import Allowed

#: PyTorch's storage classes of codes
STORAGES = {"QInt8Storage": "qint8", "QUInt8Storage": "quint8", "QInt32Storage": "qint32"}
KINDS = tuple(CODES)


def codes_dtype(dtype):
    """The dtype in which codes are held."""
    return CODES[dtype][0]


def parts_of(t):
    """(scheme, *what the scheme needs) of a quantized tensor. Channels are called affine, whatever their zero points
    are, as PyTorch writes them."""
    quantizer = t._quantizer
    if isinstance(quantizer, PerTensor):
        return quantizer.scheme, quantizer.scale, quantizer.zero_point
    return SCHEMES["per_channel_affine"], quantizer.scales, quantizer.zero_points, quantizer.axis


def rebuilt(codes, dtype, parts):
    """The quantized tensor of these codes; `parts` come from a file."""
    if type(parts) is not tuple or not parts or type(parts[0]) is not flambeau.qscheme:
        raise PickleError(f"a quantized tensor with the parts {shown(parts)}")
    scheme, *rest = parts
    if scheme.name.startswith("per_tensor"):
        return wrap(codes, _one(dtype, rest), dtype)
    return wrap(codes, _channels(codes, dtype, rest), dtype)


def _one(dtype, rest):
    if len(rest) != 2 or type(rest[0]) is not float or type(rest[1]) is not int:
        raise PickleError(f"a quantized tensor with scale and zero point {shown(rest)}")
    _check_code(dtype, rest[1])
    return PerTensor(*rest)


def _check_code(dtype, zero_point):
    _, low, high = CODES[dtype]
    if not low <= zero_point <= high:
        raise PickleError(f"a quantized tensor of dtype {dtype} with zero point {zero_point}")


def _channels(codes, dtype, rest):
    if len(rest) != 3 or type(rest[2]) is not int or not 0 <= rest[2] < codes.ndim:
        raise PickleError(f"a quantized tensor of {codes.ndim} dimensions with channels {shown(rest)}")
    floating = _checked(rest[1], flambeau.Tensor).is_floating_point()
    kinds = (flambeau.float32,) * 2 if floating else (flambeau.float64, flambeau.int64)
    for t, kind in zip(rest, kinds, strict=False):
        if type(_checked(t, flambeau.Tensor)) is not flambeau.Tensor or t.dtype is not kind or t.is_meta \
                or tuple(t.shape) != (codes.shape[rest[2]],):
            raise PickleError(f"a quantized tensor whose scales or zero points are {t.dtype} {list(t.shape)}")
    if not floating:
        for zero_point in rest[1].tolist():
            _check_code(dtype, zero_point)
    return PerChannel(*rest)


class ScriptObject:
    """Packed weights of a quantized layer as PyTorch stores them: the name of their class, and its parts as data."""

    def __init__(self, kind="", parts=()):
        self.kind, self.parts = kind, parts

    def __repr__(self):
        return f"ScriptObject <{self.kind}>"


LINEAR = "__torch__.torch.classes.quantized.LinearPackedParamsBase"
CELL = "__torch__.torch.classes.rnn.CellParamsBase"
_PACKED = (LINEAR, CELL)


def _set_parts(value, state):
    if type(state) is not tuple or len(state) != 2 or type(state[0]) is not tuple or state[1] not in _PACKED:
        raise PickleError(f"a ScriptObject with the state {shown(state)}")
    value.parts, value.kind = state


def table(objects):
    """{name: Allowed} for one load, whose `objects` note what may be given attributes."""
    return {"torch.ScriptObject": Allowed(value=ScriptObject, new=lambda: objects.fresh(ScriptObject(), _set_parts))}
