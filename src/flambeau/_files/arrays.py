"""NumPy's arrays, scalars and dtypes in files, made of parts that are compared with what NumPy itself would write."""

import re
import sys
from math import prod

import numpy

from .._shown import shown
from .extent import PickleError
from .known import checked, whole
from .pickle_reader import Allowed

_CODE = re.compile(r"([?bBhHiIlLqQefdgFDG]|b1|[iu][1248]|f(2|4|8|16)|c(8|16|32)|[SUV]\d{1,9}|[Mm]8|O8?)")
_UNIT = re.compile(rb"generic|[YMWDhms]|[munpfa]s")
_MAX_DIMS = 64
_MOST_EMPTY = 1 << 16  # elements without bytes: to print them all must end


def table(objects):
    """{name: Allowed} for one load, whose `objects` note what may be given attributes."""
    array = Allowed(call=lambda kind, shape, code: objects.fresh(_empty(kind), _fill))
    dtype = Allowed(call=lambda *args: objects.fresh(_dtype(*args), _set_dtype), value=numpy.dtype)
    names = {"numpy.ndarray": Allowed(value=numpy.ndarray), "numpy.dtype": dtype}
    for module in ("numpy.core.multiarray", "numpy._core.multiarray"):
        names[module + "._reconstruct"] = array
        names[module + ".scalar"] = Allowed(call=_scalar)
    for module in ("numpy.core.numeric", "numpy._core.numeric"):
        names[module + "._frombuffer"] = Allowed(call=_from_buffer)
    for kind in set(numpy.sctypeDict.values()):
        names["numpy." + kind.__name__] = Allowed(value=kind)
    for kind in {type(numpy.dtype(code)) for code in "?bBhHiIlLqQefdgFDGSUVMmO"}:
        names["numpy.dtypes." + kind.__name__] = Allowed(value=kind)
    return names


def parts(value):
    """What an array refers to."""
    return iter(value.flat) if value.dtype.hasobject and value.dtype.kind == "O" else ()


def _empty(kind):
    if kind is not numpy.ndarray:
        raise PickleError(f"an array of the kind {shown(kind)}")
    return numpy.ndarray((0,), "b")


def _dtype(code, align=False, *_):
    if type(code) is not str or not _CODE.fullmatch(code):
        raise PickleError(f"a NumPy dtype {shown(code)}")
    return numpy.dtype(code, align=bool(align), copy=True)


def _set_dtype(dtype, state):
    """Byte order, unit and fields of a dtype; the state must be the one that NumPy gives to the dtype it describes."""
    if type(state) is not tuple or not 8 <= len(state) <= 9 or state[1] not in ("<", ">", "|", "="):
        raise PickleError("a NumPy dtype with an unknown state")
    wanted = _described(dtype, state)
    own = wanted.__reduce__()[2]
    if own[1:8] != state[1:8]:
        raise PickleError(f"a NumPy dtype whose state is not that of {wanted!s:.100}")
    dtype.__setstate__(own)


def _described(dtype, state):
    _, order, subarray, names, fields = state[:5]
    if not all(value is None or type(value) is int for value in (subarray, *state[5:8])):
        raise PickleError("a NumPy dtype of arrays")
    if names is None and fields is None:
        if len(state) == 9:
            return numpy.dtype(f"{dtype.kind}8{_unit(state[8])}").newbyteorder(order)
        return dtype.newbyteorder(order)
    if not (type(names) is tuple and type(fields) is dict and dtype.kind == "V" and len(names) == len(fields) <= 1000
            and all(type(name) is str and name in fields for name in names)):
        raise PickleError("a NumPy dtype whose fields do not fit their names")
    for field in fields.values():
        if type(field) is not tuple or len(field) != 2 or not isinstance(field[0], numpy.dtype) or field[0].hasobject:
            raise PickleError("a NumPy dtype with an unknown field")
        whole(field[1])
    found = [fields[name] for name in names]
    return numpy.dtype({"names": list(names), "formats": [kind for kind, _ in found],
                        "offsets": [offset for _, offset in found], "itemsize": dtype.itemsize},
                       align=bool(state[7] & 128))


def _unit(metadata):
    unit = metadata[-1] if type(metadata) is tuple and metadata else None
    if not (type(unit) is tuple and len(unit) >= 2 and type(unit[0]) is bytes and _UNIT.fullmatch(unit[0])):
        raise PickleError("a NumPy time of an unknown unit")
    number, = whole(unit[1])
    if not 0 < number < 1 << 31:
        raise PickleError("a NumPy time of an unknown unit")
    return "" if unit[0] == b"generic" else f"[{number}{unit[0].decode()}]"


def _check_size(shape, dtype, size):
    checked(dtype, numpy.dtype)
    if type(shape) is not tuple or len(shape) > _MAX_DIMS or any(n < 0 for n in whole(*shape)):
        raise PickleError(f"an array of shape {shown(shape)}")
    if prod(shape) * dtype.itemsize != size or (dtype.itemsize == 0 and prod(shape) > _MOST_EMPTY):
        raise PickleError(f"an array of shape {shown(shape)} and dtype {dtype!s:.100}, with {size} bytes")


def _fill(array, state):
    if type(state) is not tuple or len(state) != 5 or type(state[3]) is not bool or type(state[0]) is not int:
        raise PickleError("an array with an unknown state")
    _, shape, dtype, _, data = state
    if isinstance(dtype, numpy.dtype) and dtype == numpy.dtype(object):
        _check_size(shape, dtype, dtype.itemsize * len(checked(data, list)))
    else:
        _check_size(shape, dtype, len(checked(data, bytes)))
        if dtype.hasobject:
            raise PickleError("an array of records that hold objects")
    array.__setstate__((1, shape, dtype, state[3], data))
    check_texts(array)


def _scalar(dtype, data):
    _check_size((), dtype, len(checked(data, bytes)))
    if dtype.hasobject:
        raise PickleError("a scalar that is an object")
    return check_texts(numpy.ndarray((), dtype, bytearray(data) or bytearray(1)))[()]


def _from_buffer(data, dtype, shape, order):
    _check_size(shape, dtype, len(checked(data, (bytes, bytearray))))
    if dtype.hasobject or order not in ("C", "F"):
        raise PickleError(f"an array of {dtype!s:.100} in the order {shown(order)}")
    return check_texts(numpy.ndarray(shape, dtype, bytearray(data) or bytearray(1), order=order))


def check_texts(array):
    """The array, whose texts are made of characters: others end in errors of the interpreter when they are used."""
    for name in array.dtype.names or ():
        check_texts(array[name])
    if array.dtype.kind == "U" and array.size and array.dtype.itemsize:
        codes = numpy.ascontiguousarray(array).reshape(-1).view(numpy.dtype("u4").newbyteorder(array.dtype.byteorder))
        if codes.max() > sys.maxunicode:
            raise PickleError(f"an array of texts with the character {codes.max()}, which is none")
    return array
