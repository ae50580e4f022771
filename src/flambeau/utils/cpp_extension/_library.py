"""A shared library as a Python module: its functions take tensors, numbers, strings and lists, and give them back."""

import ctypes
import types

from ... import _C, Tensor, empty, is_grad_enabled
from ..._shown import shown
from ...autograd.graph import increment_version

_VERSION = 1
_DTYPES = tuple(getattr(_C, name) for name in (
    "uint8 int8 int16 int32 int64 float16 float32 float64 complex64 complex128 bool bfloat16 uint16 uint32 "
    "uint64".split()))
_NUMBERS = {dtype: number for number, dtype in enumerate(_DTYPES)}
_NONE, _BOOL, _INT, _FLOAT, _STRING, _TENSOR, _LIST = range(7)
_ERRORS = {2: TypeError, 3: ValueError, 4: IndexError, 5: MemoryError}


class _Described(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("sizes", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("ndim", ctypes.c_int64), ("dtype", ctypes.c_int32),
                ("handle", ctypes.c_int32)]


class _Content(ctypes.Union):
    _fields_ = [("integer", ctypes.c_int64), ("number", ctypes.c_double), ("pointer", ctypes.c_void_p)]


class _Value(ctypes.Structure):
    _anonymous_ = ("content",)
    _fields_ = [("kind", ctypes.c_int32), ("count", ctypes.c_int32), ("content", _Content)]


_Empty = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64), ctypes.c_int32,
                          ctypes.POINTER(_Described))


class _Host(ctypes.Structure):
    _fields_ = [("version", ctypes.c_int32), ("empty", _Empty)]


_Call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(_Value), ctypes.c_int32, ctypes.POINTER(_Value),
                         ctypes.POINTER(_Host))


class _Function(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("documentation", ctypes.c_char_p), ("parameters", ctypes.c_char_p),
                ("call", _Call)]


class _Table(ctypes.Structure):
    _fields_ = [("version", ctypes.c_int32), ("count", ctypes.c_int32), ("functions", ctypes.POINTER(_Function))]


class _OneCall:
    """The tensors of a call by their handles, and the memory that the arguments point to."""

    def __init__(self, name):
        self.name, self.tensors, self.memory, self.failure = name, [], [], None

    def describe(self, tensor, out):
        """Fills in a _Described."""
        sizes = (ctypes.c_int64 * max(1, tensor.ndim))(*tensor.shape)
        strides = (ctypes.c_int64 * max(1, tensor.ndim))(*tensor.stride())
        self.memory += [sizes, strides]
        self.tensors.append(tensor)
        out.data, out.ndim, out.dtype = tensor.data_ptr(), tensor.ndim, _NUMBERS[tensor.dtype]
        out.sizes, out.strides, out.handle = sizes, strides, len(self.tensors) - 1

    def check(self, x):
        if x.dtype not in _NUMBERS or x.device.type != "cpu" or x.layout is not _C.strided:
            raise TypeError(f"{self.name}: extensions see the memory of dense tensors on the CPU, got {x.dtype} on "
                            f"{x.device}")
        if x.requires_grad and is_grad_enabled():
            raise RuntimeError(f"{self.name}: an extension records no gradients, and an argument requires them; call "
                               "it under no_grad(), or as the forward of library.custom_op or autograd.Function")

    def tensor(self, x, out):
        self.check(x)
        made = _Described()
        self.describe(x, made)
        self.memory.append(made)
        out.kind, out.pointer = _TENSOR, ctypes.addressof(made)

    def several(self, elements, out):
        values = (_Value * max(1, len(elements)))()
        self.memory.append(values)
        for each, value in zip(elements, values):
            self.argument(each, value)
        out.kind, out.count, out.pointer = _LIST, len(elements), ctypes.addressof(values)

    def integer(self, x, out):
        if not -(1 << 63) <= x < 1 << 63:
            raise OverflowError(f"{self.name}: {shown(x)} does not fit into 64 bits")
        out.kind, out.integer = _INT, x

    def text(self, x, out):
        data = x.encode()
        self.memory.append(data)
        out.kind, out.count = _STRING, len(data)
        out.pointer = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value

    def argument(self, x, out):
        """Fills in a _Value."""
        if isinstance(x, Tensor):
            self.tensor(x, out)
        elif x is None:
            out.kind = _NONE
        elif x is True or x is False:
            out.kind, out.integer = _BOOL, x
        elif isinstance(x, str):
            self.text(x, out)
        elif isinstance(x, (list, tuple)):
            self.several(x, out)
        elif hasattr(type(x), "__index__"):
            self.integer(x.__index__(), out)
        elif hasattr(type(x), "__float__"):
            out.kind, out.number = _FLOAT, float(x)
        else:
            raise TypeError(f"{self.name}: an extension takes tensors, numbers, strings, None and lists of these, got "
                            f"{shown(x)}")

    def make(self, ndim, sizes, dtype, out):
        """What the extension calls for a new tensor: 0, or an exception is kept."""
        try:
            self.describe(empty([sizes[k] for k in range(ndim)], dtype=_DTYPES[dtype]), out.contents)
            return 0
        except BaseException as error:  # raised again where the call returns
            self.failure = error
            return 1

    def result(self, value):
        """A _Value as a Python object."""
        if value.kind == _TENSOR:
            return self.tensors[ctypes.cast(value.pointer, ctypes.POINTER(_Described)).contents.handle]
        if value.kind == _STRING:
            return ctypes.string_at(value.pointer, value.count).decode("utf-8", "replace")
        if value.kind == _LIST:
            elements = ctypes.cast(value.pointer, ctypes.POINTER(_Value))
            return tuple(self.result(elements[k]) for k in range(value.count))
        return {_NONE: None, _BOOL: value.integer != 0, _INT: value.integer, _FLOAT: value.number}[value.kind]


class ExtensionFunction:
    """A function of an extension; other Python threads run while it does."""

    def __init__(self, entry, library):
        self.__name__ = self.__qualname__ = entry.name.decode()
        self.__doc__ = entry.documentation.decode()
        self._parameters, self._call = entry.parameters.decode(), entry.call
        self._library = library  # the code lives as long as the function

    def __repr__(self):
        return f"<extension function {self.__name__} with {len(self._parameters)} arguments>"

    def __call__(self, *args):
        call = _OneCall(self.__name__)
        given, result = (_Value * max(1, len(args)))(), _Value()
        for x, value in zip(args, given):
            call.argument(x, value)
        host = _Host(_VERSION, _Empty(call.make))
        code = self._call(given, len(args), ctypes.byref(result), ctypes.byref(host))
        written = [x for x, letter in zip(args, self._parameters) if letter == "T" and isinstance(x, Tensor)]
        if written:
            increment_version(written)
        if code == 1:
            raise call.failure
        if code:
            raise _ERRORS.get(code, RuntimeError)(f"{self.__name__}: {call.result(result)}")
        return call.result(result)


def functions_of(path):
    """{name: function} of a shared library that includes `flambeau/extension.h`."""
    library = ctypes.CDLL(str(path))
    try:
        entry = library.flambeau_extension
    except AttributeError:
        raise ImportError(f"cpp_extension: {shown(str(path))} has no functions for Python: include "
                          "<flambeau/extension.h> and name them with FLAMBEAU_FUNCTION(name, documentation)") from None
    entry.restype = ctypes.POINTER(_Table)
    table = entry().contents
    if table.version != _VERSION:
        raise ImportError(f"cpp_extension: {shown(str(path))} was compiled with version {table.version} of the header, "
                          f"this is {_VERSION}; compile it again")
    return {table.functions[k].name.decode(): ExtensionFunction(table.functions[k], library)
            for k in range(table.count)}


def module_of_library(name, path):
    """A module of the functions of a shared library, as `load` gives it."""
    module = types.ModuleType(name, f"Functions in C++, from {path}")
    module.__file__ = str(path)
    vars(module).update(functions_of(path))
    return module
