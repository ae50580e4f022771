"""Sums, products and joins of quantized tensors, whose results get codes of a given scale."""

from .. import _C
from ..ops.kinds import OPS
from .results import ALL, BYTES, activation, coded, decoded, mapped, requantized, result_quantizer
from .tensor import CODES, PerTensor, has_channels_last, is_quantized, wrap


def _number(x):
    return x.item() if isinstance(x, _C.Tensor) else x


# --- of two tensors ---------------------------------------------------------------------------------------------------

def _pair(name, qa, qb):
    activation(name, qa, ALL), activation(name, qb, ALL)
    if qa.dtype is not qb.dtype:
        raise RuntimeError(f"{name}: both tensors must have the same dtype, got {qa.dtype} and {qb.dtype}")


def _computed(kind, qa, qb, to, relu):
    if qa.dtype not in BYTES:
        return coded(OPS[kind](decoded(qa), decoded(qb)), to, qa.dtype, relu)
    a, b = qa._codes, qb._codes
    if a.shape != b.shape:
        a, b = OPS["broadcast_tensors"](a, b)
    of_a, of_b = qa._quantizer, qb._quantizer
    return wrap(OPS["_code_pair"](a, of_a.scale, of_a.zero_point, b, of_b.scale, of_b.zero_point, to.scale,
                                  to.zero_point, kind == "mul", relu), to, qa.dtype)


def of_two(kind, relu):
    """The operator `kind` (add, mul) of two quantized tensors, or of one and a number."""
    name = f"{kind}_relu" if relu else kind

    def compute(qa, qb, scale=None, zero_point=None, *, out=None):
        if out is not None:
            return into(qa, qb, out)
        if not is_quantized(qa):
            qa, qb = qb, qa
        if scale is None:
            return SCALAR[kind](name, qa, qb, relu)
        _pair(name, qa, qb)
        return _computed(kind, qa, qb, result_quantizer(name, scale, zero_point, qa.dtype), relu)

    def into(qa, qb, out):
        if not is_quantized(qb):
            return _written(out, SCALAR[kind](name, qa, qb, relu))
        _pair(name, qa, qb)
        return _filled(out, _computed(kind, qa, qb, activation(name, out, ALL), relu))

    compute.__doc__ = f"{kind} of two quantized tensors" + (", and relu." if relu else ".")
    into.__doc__ = f"{kind} into `out`, whose scale the result has."
    return compute, into


def _filled(out, found):
    """The codes of a result in a tensor that has its scale."""
    if out.shape != found.shape or out.dtype is not found.dtype:
        raise RuntimeError(f"out: expected {found.dtype} {list(found.shape)}, got {out.dtype} {list(out.shape)}")
    out._codes.copy_(found._codes)
    return out


def _written(out, found):
    """A result with its scale in another tensor."""
    _filled(out, found)._quantizer = found._quantizer
    return out


# --- of a tensor and a number -----------------------------------------------------------------------------------------

def _add_number(name, qa, b, relu):
    """The zero point moves; where it would leave the codes' range, the scale grows as far as needed."""
    quantizer, (kind, low, high) = activation(name, qa, ALL), CODES[qa.dtype]
    scale, zero = quantizer.scale, quantizer.zero_point
    steps = round(float(_number(b)) / scale)
    moved = zero - steps
    if moved < low:
        to = PerTensor((high - moved) / (high - low) * scale, low)
    elif moved > high:
        to = PerTensor((moved - low) / (high - low) * scale, high)
    else:
        to = PerTensor(scale, moved)
    codes = qa._codes
    if to.scale != scale:
        found = (codes.double() + (steps - zero)).float() * (scale / to.scale)
        codes = (found.double().round() + to.zero_point).clamp(low, high).to(kind)
    return wrap(codes.clamp(min=to.zero_point) if relu else codes.clone(), to, qa.dtype)


def _mul_number(name, qa, b, relu):
    """The scale is multiplied; a negative number turns the codes' order round."""
    quantizer, (kind, low, high) = activation(name, qa, ALL), CODES[qa.dtype]
    scale, zero, b = quantizer.scale, quantizer.zero_point, float(_number(b))
    if b == 0:
        return wrap(OPS["zeros_like"](qa._codes), PerTensor(1.0, 0), qa.dtype)
    if b > 0:
        to, codes = PerTensor(b * scale, zero), qa._codes
    else:
        to, codes = PerTensor(-b * scale, high - (zero - low)), (high + low - qa._codes.long()).to(kind)
    return wrap(codes.clamp(min=to.zero_point) if relu else codes.clone(), to, qa.dtype)


SCALAR = {"add": _add_number, "mul": _mul_number}


def of_number(kind, relu):
    """The operator `kind` of a quantized tensor and a number, which chooses its scale itself."""
    name = f"{kind}_scalar" + ("_relu" if relu else "")

    def compute(qa, b):
        return SCALAR[kind](name, qa, b, relu)

    def into(qa, b, out):
        return _written(out, compute(qa, b))

    compute.__doc__ = f"{kind} of a quantized tensor and a number" + (", and relu." if relu else ".")
    into.__doc__ = f"{name} into `out`, which gets the result's scale too."
    return compute, into


# --- joins ------------------------------------------------------------------------------------------------------------

def joined(relu):
    """Joins along a dimension."""
    name = "cat_relu" if relu else "cat"

    def compute(qx, dim, scale=None, zero_point=None):
        if not qx:
            raise RuntimeError(f"{name}: expected at least one tensor")
        first = activation(name, qx[0], ALL)
        to = result_quantizer(name, first.scale if scale is None else scale,
                              first.zero_point if zero_point is None else zero_point, qx[0].dtype)
        return wrap(_joined(name, qx, dim, to, relu), to, qx[0].dtype)

    def into(qx, dim, out):
        found = wrap(_joined(name, qx, dim, activation(name, out, ALL), relu), out._quantizer, out.dtype)
        return _filled(out, found)

    compute.__doc__ = "Quantized tensors joined along a dimension, in a given scale or that of the first."
    into.__doc__ = "Quantized tensors joined along a dimension into `out`, in its scale."
    return compute, into


def _itself(x):
    return x


def _joined(name, tensors, dim, to, relu):
    lying, parts = dim == 1 and all(has_channels_last(x._codes) for x in tensors), []
    for x in tensors:
        quantizer = activation(name, x, ALL)
        if x.dtype is not tensors[0].dtype:
            raise RuntimeError(f"{name}: all tensors must have dtype {tensors[0].dtype}, got {x.dtype}")
        if quantizer.same(to):
            codes = x._codes
        else:
            codes = mapped(_itself, x, to)._codes if lying else requantized(x, to)
        parts.append(codes.clamp(min=to.zero_point) if relu else codes)
    return OPS["cat"](parts, dim)
