"""The numbers that programs of TorchScript have for dtypes, layouts and memory formats."""

import flambeau

from .. import _C

#: the numbers that stand for dtypes in programs, layouts and memory formats likewise
DTYPES = dict(enumerate((
    "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64", "complex128",
    "bool", "qint8", "quint8", "qint32", "bfloat16")))
DTYPES.update({23: "float8_e5m2", 24: "float8_e4m3fn", 25: "float8_e5m2fnuz", 26: "float8_e4m3fnuz", 27: "uint16",
               28: "uint32", 29: "uint64"})
LAYOUTS = ("strided", "sparse_coo", "sparse_csr", "mkldnn", "sparse_csc", "sparse_bsr", "sparse_bsc")
FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
NUMBERS = {**{getattr(flambeau, name): number for number, name in DTYPES.items() if hasattr(flambeau, name)},
           **{getattr(flambeau, name): k for k, name in enumerate(LAYOUTS) if hasattr(flambeau, name)},
           **{getattr(flambeau, name): k for k, name in enumerate(FORMATS)}}


def is_layout(x):
    """Whether a value is a layout: memory formats are of the same type."""
    return isinstance(x, flambeau.layout) and any(x is getattr(flambeau, name, None) for name in LAYOUTS)


def dtype_of(number):
    """The dtype of a number in a program."""
    return number if number is None or isinstance(number, _C.dtype) else getattr(flambeau, DTYPES[number])


def meant(value, names):
    """What a number stands for; anything else as it is."""
    return getattr(flambeau, names[value]) if type(value) is int else value
