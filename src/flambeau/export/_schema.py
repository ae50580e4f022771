"""Words and numbers of exported programs' files: versions, entries, dtypes, layouts, memory formats, devices, and the
kinds of arguments. The format is PyTorch's archive of a `.pt2` file.

    archive_format, archive_version, byteorder      "pt2", "0", "little"
    models/NAME.json                                the program: its graph, signature, and the ranges of its sizes
    data/weights/, data/constants/                  the tensors (_payload.py)
    data/sample_inputs/NAME.pt                      the example arguments, as `flambeau.save` writes them
    extra/                                          files beside the program
"""

import keyword

import flambeau

from .. import _C
from .._shown import shown

#: (major, minor) of what is written; files of this major number are read
VERSION = (8, 20)
OPSET = 10
#: of the release whose files these are
RELEASE = "2.13.0"
POSITIONAL, KEYWORD = 1, 2
#: the namespace of operators that only this library has
OWN = "flambeau"

DTYPES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64",
          9: "complex32", 10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16",
          29: "float8_e4m3fn", 30: "float8_e5m2", 31: "float8_e4m3fnuz", 32: "float8_e5m2fnuz", 33: "float8_e8m0fnu",
          34: "uint32", 35: "uint64"}
LAYOUTS = {1: "sparse_coo", 2: "sparse_csr", 3: "sparse_csc", 4: "sparse_bsr", 5: "sparse_bsc", 6: "_mkldnn",
           7: "strided"}
FORMATS = {1: "contiguous_format", 2: "channels_last", 3: "channels_last_3d", 4: "preserve_format"}


def _meant(number, names, what):
    found = getattr(flambeau, names.get(number, ""), None) if type(number) is int else None
    if found is None:
        raise ValueError(f"export.load: {shown(number)} is the number of no {what} that this library has")
    return found


def dtype_of(number):
    """The dtype that a number in a file stands for."""
    return _meant(number, DTYPES, "dtype")


def layout_of(number):
    """The layout that a number in a file stands for."""
    return _meant(number, LAYOUTS, "layout")


def format_of(number):
    """The memory format that a number in a file stands for."""
    return _meant(number, FORMATS, "memory format")


def _number(value, names, what):
    found = next((number for number, name in names.items() if getattr(flambeau, name, None) is value), None)
    if found is None:
        raise NotImplementedError(f"export.save: the {what} {shown(value)} has no number in files of exported programs")
    return found


def number_of(dtype):
    """The number of a dtype in a file."""
    return _number(dtype, DTYPES, "dtype")


def layout_number(layout):
    """The number of a layout in a file."""
    return _number(layout, LAYOUTS, "layout")


def format_number(memory_format):
    """The number of a memory format in a file."""
    return _number(memory_format, FORMATS, "memory format")


def device_data(device):
    """A device in a file."""
    return {"type": device.type, "index": device.index}


def read_device(data):
    """The device of a file."""
    index = data.get("index")
    if index is not None and (type(index) is not int or index < 0):
        raise ValueError(f"export.load: {shown(index)} is the number of no device")
    try:
        return _C.device(str(data["type"])) if index is None else _C.device(str(data["type"]), index)
    except RuntimeError as error:
        raise ValueError(f"export.load: {error}") from None


def as_name(name):
    """A name that becomes one in Python's code: of an argument, or an attribute."""
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"export.load: {shown(name)} is no name of an argument or attribute")
    return name


def kind(data):
    """(kind, content) of a part of a file that is one of several kinds: {"as_int": 3} is ("as_int", 3)."""
    (name, content), = data.items()
    return name, content
