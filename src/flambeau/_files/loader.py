"""What the names in a file may call: the loader of one archive, which rebuilds its tensors and containers.

Every argument comes from the file, so that each is checked for its type before it is used; a tensor must lie inside its
storage, and nothing is computed that would need much more memory than the file has bytes.
"""

import _pickle
import enum
import importlib
from collections import Counter, OrderedDict, defaultdict
from math import prod
from sys import byteorder

import flambeau

from .. import _C
from .._shown import shown
from .._tensor.copying import as_lazy
from .._tensor.storage import TypedStorage
from . import known, quantized
from .extent import Outside, PickleError
from .known import checked as _checked
from .objects import Objects, Refused
from .pickle_reader import Allowed, Reader
from .placing import restored

STORAGES = {  # PyTorch's storage classes and the dtypes they imply
    "BoolStorage": "bool", "ByteStorage": "uint8", "CharStorage": "int8", "ShortStorage": "int16",
    "IntStorage": "int32", "LongStorage": "int64", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "FloatStorage": "float32", "DoubleStorage": "float64", "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128", **quantized.STORAGES,
}
DTYPES = (*STORAGES.values(), "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
          "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2", "complex32")
LAYOUTS = tuple(f"torch.{name}" for name in ("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr",
                                             "sparse_bsc"))
_MAX_DIMS = 64
_LONGEST_DEVICE = 40
_LEAST_ALIGNMENT = 16  # of memory that kernels may read where it lies


def _stored(number, memory, dtype):
    """A storage of the file in memory: its number, its bytes, and the dtype its class implies, None of bytes alone."""
    made = TypedStorage.__new__(TypedStorage)
    made._owner, made.dtype, made._entry = memory, dtype or flambeau.uint8, (number, memory, dtype)
    return made


def _entry(storage):
    """What _stored was given; Nones for anything else."""
    return getattr(storage, "_entry", (None, None, None)) if type(storage) is TypedStorage else (None, None, None)


def _other_order(memory, dtype):
    """The bytes with each number's turned around; those of a complex number in two halves."""
    size = 1 if dtype is None else dtype.itemsize // (2 if dtype.is_complex else 1)
    return memory if size == 1 else memory.reshape(-1, size).flip(1).reshape(-1)


class _Rebuild(Outside):
    """A function that rebuilds a tensor, where a name of it is handed to another one."""

    def __init__(self, call):
        self.call = call


class _Note:
    """What a compiler of PyTorch's has written down about a tensor's sizes: without meaning here."""


def _nested():
    """What files say of nested tensors; loaded by the first that does."""
    return importlib.import_module("flambeau._files.nested")


class UnpicklingError(RuntimeError, _pickle.UnpicklingError):
    """The file names what is no plain data; PyTorch's error of this kind is an UnpicklingError."""


class Loader:
    """Builds the object of one archive. Its methods are all that names in the stream can call."""

    def __init__(self, archive, map_location, mapped, weights_only=True, encoding="utf-8", skip_data=False):
        self.archive = archive
        self.map_location = map_location
        self.mapped = mapped  # the file's memory, with mmap=True
        self.encoding = encoding
        self.skip_data = skip_data
        self.fake = type(flambeau.empty(0, device="cpu")) is not flambeau.Tensor  # a FakeTensorMode is on: no values
        self.memory = {}
        self.states = {}      # id of an object -> its attributes
        self.kept = []        # those objects: their ids must stay theirs
        self.objects = Objects(weights_only)
        self.classes = {}     # name -> Allowed of what is no plain data
        self.table = _PLAIN | known.table(self.objects) | quantized.table(self.objects)
        for name, method in _REBUILD.items():
            call = getattr(self, method)
            self.table[name] = Allowed(call=call, value=_Rebuild(call))

    @property
    def swapped(self):
        """Whether numbers have the other byte order."""
        return getattr(self.archive, "order", byteorder) != byteorder

    def load(self):
        try:
            result = self.reader(self.archive.read("data.pkl")).load()
            self.objects.check()
            return result
        except PickleError as error:
            kind = UnpicklingError if isinstance(error, Refused) else RuntimeError
            raise kind(f"load: {self.archive.name}: entry 'data.pkl': {error}") from error.__cause__

    def reader(self, data, at=0):
        return Reader(data, self.find, self.outside, self.attributes, self.restore, self.hashable, self.encoding, at)

    def find(self, module, name):
        full = f"{module}.{name}"
        if module.startswith("numpy") and full not in self.table:
            self.table |= importlib.import_module("flambeau._files.arrays").table(self.objects)
        entry = self.table.get(full)
        if entry is None:
            entry = self.classes[full] = self.objects.entry(module, name)
        return entry

    def restore(self, target, state):
        if type(target) is _Note:
            return
        self.objects.restore(target, state)
        self.states[id(target)] = {"state": state}

    def attributes(self, value):
        if type(value).__module__ == "numpy" and type(value).__name__ == "ndarray":
            return importlib.import_module("flambeau._files.arrays").parts(value)
        return self.states.get(id(value), {}).values()

    def hashable(self, kind):
        """Whether a file may use objects of this type as keys: their hash costs little and runs nobody's code."""
        return (kind in known.HASHABLE or kind.__hash__ is object.__hash__ or issubclass(kind, enum.Enum)
                or kind.__module__ == "numpy" or kind in self.objects.trusted.values())

    # --- storages

    def outside(self, key):
        """What a persistent id stands for: a storage, or (before 1.6) a module's class, whose source follows it."""
        if self.encoding == "bytes" and type(key) is tuple:  # texts of Python 2, which here are names
            key = tuple(part.decode("latin1") if type(part) is bytes else part for part in key)
        if type(key) is tuple and len(key) == 4 and type(key[0]) is str and key[0] == "module":
            found = next((entry for entry in self.classes.values() if entry.value is key[1]), None)
            if found is not None:
                return found
        return self.storage(key)

    def storage(self, key):
        if not (type(key) is tuple and 5 <= len(key) <= 6 and all(type(part) is str for part in key[:4])
                and key[0] == "storage" and type(key[4]) is int and 0 <= key[4] < 1 << 63):
            raise PickleError(f"a reference to {shown(key)}")
        _, kind, number, location, count = key[:5]
        if kind == "UntypedStorage":
            dtype, item = None, 1
        elif kind in STORAGES:
            dtype = getattr(flambeau, STORAGES[kind])
            item = dtype.itemsize
        else:
            raise PickleError(f"a storage of the kind {shown(kind)}")
        if number not in self.memory:
            memory = self.fetch(number, count * item)
            if self.swapped and not self.fake:
                memory = _other_order(memory, dtype)
            self.memory[number] = self.place(memory, location)
        memory = self.memory[number]
        if memory.numel() // item != count:
            raise PickleError(f"storage {shown(number)} claims {count * item} bytes, "
                              f"entry {shown('data/' + number)} has {memory.numel()}")
        if len(key) == 6 and key[5] is not None:
            return self.part(number, memory, dtype, item, key[5])
        return _stored(number, memory, dtype)

    def part(self, number, memory, dtype, item, view):
        """A part of a storage, as PyTorch wrote it before 0.4: (its own key, first element, number of elements)."""
        if not (type(view) is tuple and len(view) == 3 and all(type(n) is int and 0 <= n < 1 << 60 for n in view[1:])
                and (view[1] + view[2]) * item <= memory.numel()):
            raise PickleError(f"a part {shown(view)} of storage {shown(number)}")
        key = number, view[1], view[2]
        if key not in self.memory:
            start = view[1] * item
            self.memory[key] = memory[start:start + view[2] * item]
        return _stored(key, self.memory[key], dtype)

    def fetch(self, number, *_):
        """The bytes of a storage as a uint8 tensor."""
        entry = "data/" + number
        size = self.archive.size(entry)
        if self.skip_data or self.fake:
            return flambeau.empty(size, dtype=flambeau.uint8, device="cpu")
        if self.mapped is not None and not self.swapped and self.archive.offset(entry) % _LEAST_ALIGNMENT == 0:
            start = self.archive.offset(entry)
            if start + size > len(self.mapped):
                raise PickleError(f"entry {shown(entry)} reaches past the end of the file")
            if size == 0:
                return flambeau.empty(0, dtype=flambeau.uint8, device="cpu")
            return flambeau.frombuffer(memoryview(self.mapped)[start:start + size], dtype=flambeau.uint8)
        memory = flambeau.empty(size, dtype=flambeau.uint8, device="cpu")
        self.archive.read_into(entry, memoryview(memory) if size else b"")
        return memory

    def place(self, memory, location):
        """Where the user wants a storage that was on `location`."""
        wanted = self.map_location
        if isinstance(wanted, dict):
            wanted = wanted.get(location, location)
        elif callable(wanted):
            moved = wanted(memory, location)
            if moved is not None:
                return moved
            wanted = None
        wanted = location if wanted is None else str(wanted)
        kind = wanted.partition(":")[0]
        moved = restored(memory, wanted)
        if moved is not None:
            return moved
        if kind == "cpu":
            return memory
        if kind == "meta" or (kind == "cuda" and _C._cuda.available()):
            return memory.to(wanted)
        raise PickleError(f"a tensor was saved on device {shown(location)} and is wanted on {shown(wanted)}, which is "
                          "not there; use map_location='cpu'")

    # --- tensors

    def tensor(self, storage, offset, size, stride, requires_grad, hooks, metadata=None):
        _, _, dtype = _entry(storage)
        if dtype is None:
            raise PickleError("a tensor without a storage")
        return self.view(storage, dtype, offset, size, stride, requires_grad, metadata)

    def old_tensor(self, storage, offset, size, stride):
        return self.tensor(storage, offset, size, stride, False, None)

    def tensor_v3(self, storage, offset, size, stride, requires_grad, hooks, dtype, metadata=None):
        _, memory, kept = _entry(storage)
        if memory is None or not isinstance(dtype, flambeau.dtype):
            raise PickleError("a tensor without a storage or without a dtype")
        if self.swapped and kept is None and dtype.itemsize > 1:
            raise PickleError(f"a tensor of {dtype} in bytes of the other byte order, {shown(self.archive.order)}, in "
                              "which only storages of one dtype can be read")
        return self.view(storage, dtype, offset, size, stride, requires_grad, metadata)

    def qtensor(self, storage, offset, size, stride, parts, requires_grad, hooks):
        """A quantized tensor: codes, and the scheme with its scale."""
        _, _, kind = _entry(storage)
        if kind not in quantized.KINDS or requires_grad is not False:
            raise PickleError("a quantized tensor without a storage of codes")
        codes = self.view(storage, quantized.codes_dtype(kind), offset, size, stride, False, None)
        return quantized.rebuilt(codes, kind, parts)

    def view(self, storage, dtype, offset, size, stride, requires_grad, metadata):
        if dtype in quantized.KINDS:
            raise PickleError(f"a tensor of dtype {dtype} without a scale")
        _, memory, _ = _entry(storage)
        room = memory.numel() // dtype.itemsize
        _check_layout(offset, size, stride, room, dtype)
        _check_flag(requires_grad)
        conj, neg = _bits(metadata, dtype)
        if memory.device.type == "meta" or self.fake:
            result = flambeau.empty_strided(size, stride, dtype=dtype, device=memory.device)
        else:
            result = _C.storage_view(memory, dtype, offset, size, stride)
        result = as_lazy(result, conj, neg)
        return result.requires_grad_() if requires_grad else result

    def meta(self, dtype, size, stride, requires_grad):
        _checked(dtype, flambeau.dtype)
        if dtype in quantized.KINDS:
            raise PickleError(f"a tensor of dtype {dtype} without a scale")
        _check_flag(requires_grad)
        _check_layout(0, size, stride, None, dtype)
        result = flambeau.empty_strided(size, stride, dtype=dtype, device="meta")
        return result.requires_grad_() if requires_grad else result

    def sparse(self, layout, parts):
        """A sparse tensor, all of whose invariants are checked."""
        kind = str(_checked(layout, flambeau.layout)).rpartition(".")[2]
        number = {"sparse_coo": 2}.get(kind, 3)
        if kind == "strided" or len(_checked(parts, tuple)) not in (number + 1, number + 2):
            raise PickleError(f"a sparse tensor of layout {shown(kind)} with {len(parts)} parts")
        for part in parts[:number]:  # an expanded part has far more elements than the file has bytes
            if _checked(part, flambeau.Tensor).layout is not flambeau.strided or part.is_meta \
                    or part.numel() * part.element_size() > part.untyped_storage().nbytes():
                raise PickleError("a sparse tensor whose parts are no plain tensors")
        size = _checked(parts[number], tuple)
        options = {} if kind != "sparse_coo" else {"is_coalesced": _checked(parts[number + 1], bool)} \
            if len(parts) > 3 else {}
        make = getattr(flambeau, kind + "_tensor")
        try:
            return make(*parts[:number], size, check_invariants=True, **options)
        except (RuntimeError, TypeError, IndexError, ValueError, OverflowError) as error:
            raise PickleError(f"a sparse tensor: {error}") from None

    def jagged(self, parts):
        return _nested().jagged(parts)

    def windows(self, buffer, sizes, strides, offsets):
        return _nested().windows(buffer, sizes, strides, offsets)

    def parameter(self, data, requires_grad, hooks):
        _check_flag(requires_grad)
        return flambeau.nn.Parameter(_checked(data, flambeau.Tensor), requires_grad)

    def parameter_with_state(self, data, requires_grad, hooks, state):
        return self.with_attributes(self.parameter(data, requires_grad, hooks), state, ("_is_param",))

    def of_type(self, rebuild, kind, args, state):
        """A tensor that has attributes, or a buffer."""
        if isinstance(rebuild, _Rebuild) and kind == "NestedTensor" and rebuild.call == self.jagged:
            own = {k: v for k, v in _checked(state, dict).items() if k not in _nested().CONTENTS}
            return self.with_attributes(self.jagged(*_checked(args, tuple)), own, ())
        if not isinstance(rebuild, _Rebuild) or kind is not flambeau.Tensor:
            raise PickleError(f"a tensor of the kind {shown(kind)}")
        result = _checked(rebuild.call(*_checked(args, tuple)), flambeau.Tensor)
        state = _checked(state, dict)
        if state.get("_is_buffer") is True:
            persistent = state.get("persistent", True)
            result = flambeau.nn.Buffer(result, persistent=_checked(persistent, bool))
            state = {name: value for name, value in state.items() if name not in ("_is_buffer", "persistent")}
        return self.with_attributes(result, state, ())

    def with_attributes(self, result, state, reserved):
        for name, value in _checked(state, dict).items():
            # not hasattr(result, name): a property such as mH would be computed
            if type(name) is not str or name in reserved or hasattr(type(result), name):
                raise PickleError(f"attribute {shown(name)} of a parameter")
            setattr(result, name, value)
        self.states[id(result)] = state
        self.kept.append(result)
        return result


# --- plain data


def _size(dims=()):
    if not all(type(n) is int and n.bit_length() < 63 for n in _checked(dims, (tuple, list))):
        raise PickleError(f"a size {shown(dims)}")
    return flambeau.Size(dims)


def _device(kind, *index):
    if type(kind) is not str or len(kind) > _LONGEST_DEVICE or any(type(n) is not int or n >> 15 for n in index):
        raise PickleError(f"a device {shown(kind)} with number {shown(index)}")
    return flambeau.device(kind, *index)


def _layout(name):
    found = getattr(flambeau, name[len("torch."):], None) if type(name) is str and name in LAYOUTS else None
    return _checked(found, flambeau.layout)


def _default(factory=None):
    if factory not in _FACTORIES:
        raise PickleError(f"a defaultdict of {shown(factory)}")
    return defaultdict(factory)


def _latin1(text, encoding="latin1"):
    if type(text) is not str or type(encoding) is not str or encoding not in ("latin1", "latin-1"):
        raise PickleError(f"bytes in the encoding {shown(encoding)}")
    return text.encode("latin1")


def _empty_bytes():
    return b""


def _byte_array(data=b"", *encoding):
    return bytearray(_latin1(data, *encoding) if encoding else _checked(data, bytes))


def _complex(re, im):
    return complex(_checked(re, (int, float)), _checked(im, (int, float)))


def _container(kind):
    return lambda items=(): kind(_checked(items, (list, tuple, dict)))


_FACTORIES = [None, list, dict, set, int, float, str, bool, tuple]


def _bits(metadata, dtype):
    """Whether a tensor's storage holds its conjugate, and whether its negative."""
    values = [_checked(metadata, dict).get(name, False) for name in ("conj", "neg")] if metadata else [False, False]
    if not all(type(value) is bool for value in values):
        raise PickleError(f"a tensor whose conj and neg are {shown(values)}, expected bools")
    if values[1] and dtype is _C.bool:
        raise PickleError("a tensor of bools, which have no negative, that is marked as one")
    return values


def _check_flag(requires_grad):
    if type(requires_grad) is not bool:
        raise PickleError(f"requires_grad is {shown(requires_grad)}, expected a bool")


def _check_layout(offset, size, stride, room, dtype):
    """A tensor must lie inside its storage of `room` elements, and its own number of bytes must be a number."""
    if not (isinstance(size, tuple) and isinstance(stride, tuple) and len(size) == len(stride) <= _MAX_DIMS):
        raise PickleError(f"a tensor of size {shown(size)} and stride {shown(stride)}")
    if not all(type(n) is int and 0 <= n < 1 << 62 for n in (offset, *size, *stride)):
        raise PickleError(f"a tensor of size {shown(size)}, stride {shown(stride)} and offset {shown(offset)}")
    count = prod(size)
    last = offset + sum((n - 1) * step for n, step in zip(size, stride)) if count else -1  # it may begin anywhere
    if room is not None and last >= room:
        raise PickleError(f"a tensor of size {shown(size)}, stride {shown(stride)} and offset {offset} reaches past "
                          f"the end of its storage of {room} elements")
    if count * dtype.itemsize >= 1 << 63:
        raise PickleError(f"a tensor of size {shown(size)}: no memory can be that large")


def _plain_names():
    """The names that need nothing of the file: functions of plain data, dtypes and kinds of storages."""
    names = {
        "torch.Size": Allowed(call=_size),
        "torch.device": Allowed(call=_device),
        "torch.Tensor": Allowed(value=flambeau.Tensor),
        "torch.serialization._get_layout": Allowed(call=_layout),
        "torch.nested._internal.nested_tensor.NestedTensor": Allowed(value="NestedTensor"),
        "torch._dynamo.decorators._DimRange": Allowed(new=_Note),
        "torch.storage.UntypedStorage": Allowed(value="UntypedStorage"),
        "collections.OrderedDict": Allowed(call=OrderedDict, keys="pairs"),
        "collections.Counter": Allowed(call=lambda items=(): Counter(dict(items)), keys="pairs"),
        "collections.defaultdict": Allowed(call=_default),
        "_codecs.encode": Allowed(call=_latin1),
    }
    calls = {
        set: (_container(set), "items"), frozenset: (_container(frozenset), "items"), list: (_container(list), None),
        tuple: (_container(tuple), None), dict: (_container(dict), "pairs"), bytearray: (_byte_array, None),
        complex: (_complex, None), int: (None, None), float: (None, None), str: (None, None), bool: (None, None),
        bytes: (_empty_bytes, None),
    }
    for kind, (call, keys) in calls.items():
        entry = Allowed(call=call, value=kind, keys=keys)
        names["builtins." + kind.__name__] = names["__builtin__." + kind.__name__] = entry
    names["__builtin__.long"], names["__builtin__.unicode"] = names["builtins.int"], names["builtins.str"]
    names |= {"torch." + name: Allowed(value=name) for name in STORAGES}
    names |= {"torch." + name: Allowed(value=scheme) for name, scheme in quantized.SCHEMES.items()}
    return names | {"torch." + name: Allowed(value=getattr(flambeau, name)) for name in DTYPES}


_PLAIN = _plain_names()
_REBUILD = {  # the methods of Loader that make tensors
    "torch._utils._rebuild_tensor": "old_tensor", "torch._utils._rebuild_tensor_v2": "tensor",
    "torch._utils._rebuild_tensor_v3": "tensor_v3", "torch._utils._rebuild_parameter": "parameter",
    "torch._utils._rebuild_parameter_with_state": "parameter_with_state",
    "torch._utils._rebuild_meta_tensor_no_storage": "meta", "torch._utils._rebuild_sparse_tensor": "sparse",
    "torch._utils._rebuild_qtensor": "qtensor", "torch._utils._rebuild_nested_tensor": "windows",
    "torch.nested._internal.nested_tensor._rebuild_njt": "jagged",
    "torch._tensor._rebuild_from_type_v2": "of_type",
}
