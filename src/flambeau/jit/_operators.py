"""The operators that TorchScript calls by name: `torch.add`, `ops.prim.device`, `ops.torchvision.nms`, and methods and
attributes of values. These tables and those of `flambeau._aten` are all that a program can reach.
"""

import enum
import types

import flambeau

from .. import _C
from .._aten.forms import listed, same, size
from .._aten.lookup import of_tensors
from .._aten.numbers import DTYPES, FORMATS, LAYOUTS, NUMBERS, meant
from .._shown import shown
from ..futures import Future
from ..ops.namespaces import operator_of
from ._errors import Error, of_program
from ._modules import ScriptObject
from ._plain import FUNCTIONS as PLAIN

#: named arguments whose numbers mean one of these
_MEANINGS = {"dtype": DTYPES, "out_dtype": DTYPES, "input_dtype": DTYPES, "layout": dict(enumerate(LAYOUTS)),
             "memory_format": dict(enumerate(FORMATS))}
#: {operator: {place: what its number means}}
_PLACES = {name: {2: DTYPES} for name in ("softmax", "log_softmax", "special_softmax", "special_log_softmax",
                                          "_safe_softmax")}
_PLACES.update({name: {3: DTYPES} for name in ("_softmax_backward_data", "_log_softmax_backward_data")})
#: attributes of values that a program may read
_READABLE = {
    _C.Tensor: frozenset("shape dtype device requires_grad grad T H mT mH data is_cuda is_cpu is_mkldnn is_sparse "
                         "is_sparse_csr is_quantized is_meta is_leaf layout ndim real imag itemsize nbytes".split()),
    _C.device: frozenset(("type", "index")),
    slice: frozenset(("start", "stop", "step")),
}


def _numbered(call, places=None):
    """`call` with the numbers of dtypes, layouts and memory formats in place of these."""
    def with_meanings(*args, **kwargs):
        for name in kwargs:
            if name in _MEANINGS:
                kwargs[name] = meant(kwargs[name], _MEANINGS[name])
        if places:
            args = [meant(value, places[k]) if k in places else value for k, value in enumerate(args)]
        if kwargs and kwargs.get("layout", 0) is None:
            del kwargs["layout"]
        return call(*args, **kwargs)

    return with_meanings


#: methods of tensors whose numbers may be given one by one
SIZES = frozenset("view reshape permute expand repeat tile flip new_zeros new_ones new_empty".split())
def _absent(name):
    def call(*args, **kwargs):
        raise NotImplementedError(f"jit: the program calls {name}, which is not available; run it where it was "
                                  "written, or write its module in Python and load the weights")

    return call


class _Both:
    """An operator that has forms for tensors, and others for numbers, texts, lists and dicts."""

    def __init__(self, tensors, plain):
        self.tensors, self.plain, self.is_of_lists = tensors, plain, plain in _OF_LISTS

    def __call__(self, *args, **kwargs):
        """The form for the arguments: tensors may stand in a list."""
        for x in args:
            if isinstance(x, _C.Tensor):
                return self.tensors(*args, **kwargs)
            if type(x) is list and self.is_of_lists:
                break
            if type(x) is list and x and isinstance(x[0], _C.Tensor):
                return self.tensors(*args, **kwargs)
        return self.plain(*args, **kwargs)


#: what a list of tensors is given to as a list
_OF_LISTS = {PLAIN[name] for name in """
    len append __getitem__ _set_item slice select extend insert pop clear reverse copy list Delete __contains__ index
    __is__ __isnot__ remove count eq ne add add_ mul sort sorted update setdefault values keys items
""".split()}
_FOUND = {}


def _divided_as_before(a, b, rounding_mode=None):
    """Whole numbers gave whole numbers up to version 3 of the format."""
    whole = all(not x.is_floating_point() and not x.is_complex() if isinstance(x, _C.Tensor) else isinstance(x, int)
                for x in (a, b))
    return flambeau.div(a, b, rounding_mode="trunc" if whole and rounding_mode is None else rounding_mode)


def versioned(version):
    """{name: operator} of those that meant something else in that version of the format."""
    found = {}
    if version < 4:
        found["div"] = _Both(_divided_as_before, PLAIN["div"])
        found["div_"] = lambda a, b: a.copy_(_divided_as_before(a, b))
    return found


def operator(name, keywords=None):
    """The function behind `torch.name` in a program; `keywords`: the names in a call of it, where they are known."""
    numbered = keywords is None or name in _PLACES or None in keywords or bool(_MEANINGS.keys() & set(keywords))
    if (name, numbered) not in _FOUND:
        plain, tensors = PLAIN.get(name), of_tensors(name)
        if tensors is not None:
            tensors = listed(tensors) if name in _LISTS else tensors
            tensors = _numbered(tensors, _PLACES.get(name)) if numbered else tensors
        _FOUND[name, numbered] = _Both(tensors, plain) if plain and tensors else (
            plain or tensors or _absent(f"torch.{name}"))
    return _FOUND[name, numbered]


#: operators whose results are lists in TorchScript
_LISTS = {"chunk", "split", "split_with_sizes", "unbind", "tensor_split", "hsplit", "vsplit", "dsplit", "gradient",
          "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "broadcast_tensors", "meshgrid", "align_tensors",
          "nonzero_numpy"}


# ---- ops.prim and the operators of libraries -------------------------------------------------------------------------

_EXCEPTIONS = {kind.__name__: kind for kind in (
    ArithmeticError, AssertionError, AttributeError, EOFError, IndexError, KeyError, LookupError, NotImplementedError,
    OverflowError, TypeError, ValueError, ZeroDivisionError)}


def _raise(text, kind=None):
    """The exception that the program names, where it is one of Python's own."""
    name = (kind or "").rpartition(".")[2]
    if kind is None and text.startswith("AssertionError"):
        name, text = "AssertionError", text.partition(": ")[2]
    raise of_program(_EXCEPTIONS[name])(text) if name in _EXCEPTIONS else Error(text)


def _read(name):
    return lambda x: attribute(x, name)


_PRIM = {
    "RaiseException": _raise, "dtype": lambda x: NUMBERS[x.dtype], "layout": lambda x: NUMBERS[x.layout],
    "shape": size, "NumToTensor": lambda x: flambeau.tensor(x), "tolist": lambda x, *_: x.tolist(),
    "unchecked_cast": same, "unchecked_unwrap_optional": same, "Print": print, "rangelist": lambda n: list(range(n)),
    "EnumName": lambda x: x.name, "EnumValue": lambda x: x.value, "TupleIndex": lambda x, k: x[k],
    "StringIndex": lambda x, k: x[k], "TupleUnpack": tuple, "IfThenElse": lambda c, a, b: a if c else b,
    "AutogradAnyNonZero": lambda *xs: True, "id": id, "data": lambda x: x.detach(), "min": PLAIN["min"],
    "max": PLAIN["max"], "abs": abs, "name": lambda x: None, "itemsize": lambda x: x.element_size(),
    **{f"is_{name}": lambda x: False for name in ("nested", "xpu", "mps", "mtia", "maia", "vulkan", "hpu", "ipu",
                                                  "xla", "ort")},
    **{name: _read(name) for name in ("device", "is_cuda", "is_cpu", "is_sparse", "is_sparse_csr", "is_quantized",
                                      "is_mkldnn", "is_meta", "requires_grad", "grad", "type", "index", "nbytes")},
}


def _begin(name, args=None):
    part = flambeau.autograd.profiler.record_function(name, args)
    part.__enter__()
    return part


_PROFILER = {"_record_function_enter_new": _begin, "_record_function_exit": lambda part: part.__exit__(),
             "_call_end_callbacks_on_jit_fut": lambda part, future: future}
_SPACES = {"prim": _PRIM, "profiler": _PROFILER}


def library(space, name):
    """The function behind `ops.space.name` in a program."""
    if space in _SPACES:
        return _SPACES[space].get(name) or _absent(f"ops.{space}.{name}")
    if space == "aten":
        return operator(name)
    return operator_of(space, name) or _later(space, name)


def _later(space, name):
    """An operator of a library that may be registered before it is called."""
    def call(*args, **kwargs):
        found = operator_of(space, name)
        if found is None:
            raise NotImplementedError(f"jit: the program calls ops.{space}.{name}, which is not registered; import the "
                                      "module that defines it first")
        return found(*args, **kwargs)

    return call


# ---- attributes and methods of values --------------------------------------------------------------------------------

def attribute(value, name):
    """`value.name`, where a program may read it."""
    open_names = getattr(type(value), "_open_names", None)
    if open_names is not None and name in open_names:
        return getattr(value, name)
    if isinstance(vars(type(value)).get(name), types.MemberDescriptorType) and isinstance(value, tuple):
        return getattr(value, name)  # one of several named results
    if isinstance(value, tuple) and name in getattr(type(value), "_fields", ()):
        return tuple.__getitem__(value, type(value)._fields.index(name))
    if isinstance(value, enum.Enum) and name in ("name", "value"):
        return getattr(value, name)
    if name in ("dtype", "layout") and isinstance(value, _C.Tensor):
        return NUMBERS[getattr(value, name)]
    if isinstance(value, flambeau.nn.Module):
        for table in (value._parameters, value._buffers, value._modules):
            if name in table:
                return table[name]
        if name == "training":
            return value.training
    for kind, names in _READABLE.items():
        if isinstance(value, kind) and name in names:
            return getattr(value, name)
    raise AttributeError(f"jit: a program may not read the attribute {shown(name)} of a {type(value).__name__}")


def store(value, name, new):
    """`value.name = new`, of an object of the program whose class declares it."""
    if not isinstance(value, ScriptObject) or name not in value._kind.types:
        raise AttributeError(f"jit: a program may not set the attribute {shown(name)} of a {type(value).__name__}")
    setattr(value, name, new)


def method(value, name):
    """`value.name`, to be called: a method of an object of the program, or an operator with the value before its
    arguments."""
    if hasattr(type(value), "_open_names") or isinstance(value, flambeau.nn.Module):
        if name == "forward" and isinstance(value, flambeau.nn.Module):
            return value.forward
        return attribute(value, name)
    if isinstance(value, Future) and name == "wait":
        return value.wait
    found = operator(name)
    if isinstance(value, _C.Tensor) and name in SIZES:
        return _numbered(getattr(value, name))
    return lambda *args, **kwargs: found(value, *args, **kwargs)
