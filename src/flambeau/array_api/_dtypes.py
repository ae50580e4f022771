"""Questions about dtypes: what can be cast, what belongs to a kind, and the limits of each."""

from typing import NamedTuple

import flambeau
from flambeau import Tensor
from flambeau._shown import shown

#: the standard's dtypes by kind
KINDS = {
    "bool": (flambeau.bool,),
    "signed integer": (flambeau.int8, flambeau.int16, flambeau.int32, flambeau.int64),
    "unsigned integer": (flambeau.uint8, flambeau.uint16, flambeau.uint32, flambeau.uint64),
    "real floating": (flambeau.float32, flambeau.float64),
    "complex floating": (flambeau.complex64, flambeau.complex128),
}
KINDS["integral"] = KINDS["signed integer"] + KINDS["unsigned integer"]
KINDS["numeric"] = KINDS["integral"] + KINDS["real floating"] + KINDS["complex floating"]
NAMES = {str(d).removeprefix("torch."): d for d in KINDS["bool"] + KINDS["numeric"]}


class FloatLimits(NamedTuple):
    """Limits of a floating-point dtype, with the dtype itself."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: flambeau.dtype


class IntegerLimits(NamedTuple):
    """Limits of an integer dtype, with the dtype itself."""

    bits: int
    max: int
    min: int
    dtype: flambeau.dtype


def _dtype(x):
    return x.dtype if isinstance(x, Tensor) else x


def finfo(type, /):
    """Takes an array too, and its `dtype` is a dtype, where PyTorch's is a string.

    >>> from flambeau import array_api as xp
    >>> xp.finfo(xp.ones(2, dtype=xp.complex128)).dtype
    torch.float64
    """
    real = _dtype(type).to_real() if _dtype(type).is_complex else _dtype(type)
    found = flambeau.finfo(real)
    return FloatLimits(found.bits, found.eps, found.max, found.min, found.smallest_normal, real)


def iinfo(type, /):
    """Takes an array too, and its `dtype` is a dtype, where PyTorch's is a string.

    >>> from flambeau import array_api as xp
    >>> xp.iinfo(xp.int8).max
    127
    """
    found = flambeau.iinfo(_dtype(type))
    return IntegerLimits(found.bits, found.max, found.min, _dtype(type))


def isdtype(dtype, kind):
    """The standard's own: whether a dtype is one of a kind ("real floating", "integral" …), or of several.

    >>> from flambeau import array_api as xp
    >>> xp.isdtype(xp.float32, "real floating"), xp.isdtype(xp.float32, (xp.int8, "complex floating"))
    (True, False)
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if not isinstance(kind, str):
        return dtype is kind
    if kind not in KINDS:
        raise ValueError(f"isdtype: {shown(kind)} is no kind of dtypes; they are {', '.join(KINDS)}")
    if kind == "real floating" and dtype.is_floating_point:
        return True  # the narrow ones, which the standard does not know, are floating too
    return dtype in KINDS[kind]


def can_cast(from_, to, /):
    """Whether promotion leads from one dtype to the other, where PyTorch only compares their kinds.

    >>> from flambeau import array_api as xp
    >>> xp.can_cast(xp.int8, xp.int16), xp.can_cast(xp.int16, xp.int8)
    (True, False)
    """
    dtypes = {_dtype(from_), to}
    if flambeau.uint64 in dtypes and not dtypes.isdisjoint(KINDS["signed integer"]):
        return False
    return flambeau.promote_types(_dtype(from_), to) is to


def astype(x, dtype, /, *, copy=True, device=None):
    """`x.to(dtype)`, which copies unless told otherwise."""
    return x.to(device=x.device if device is None else device, dtype=dtype, copy=copy)
