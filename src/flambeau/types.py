"""Type names for annotations: numbers, devices, sizes."""

import os
from typing import IO, Any

from . import _C
from ._symbolic.numbers import SymBool, SymFloat, SymInt

Tensor = _C.Tensor
Size = _C.Size
Number = int | float | bool
_Number = bool | int | float
Device = _C.device | str | int | None
FileLike = str | os.PathLike | IO[bytes]
IntLikeType = int | SymInt
FloatLikeType = float | SymFloat
BoolLikeType = bool | SymBool
py_sym_types = (SymInt, SymFloat, SymBool)
PySymType = SymInt | SymFloat | SymBool

_bool, _bytes, _complex, _float, _int, _str = bool, bytes, complex, float, int, str
_device, _dtype, _layout = _C.device, _C.dtype, _C.memory_format
_qscheme = type(None)
_size = Size | list[int] | tuple[int, ...]
_symsize = _size
_dispatchkey = str
_TensorOrTensors = Tensor | tuple[Tensor, ...] | list[Tensor]
_TensorOrOptionalTensors = Tensor | None | tuple[Any, ...] | list[Any]


class Storage:
    """What a storage is, for annotations: see UntypedStorage and TypedStorage."""
