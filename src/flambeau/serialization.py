"""`save` and `load`: objects of tensors and plain data in PyTorch's zip file format, both ways.

A file is a zip archive of uncompressed, 64-byte aligned entries: `data.pkl` says what the object is, `data/0`,
`data/1`, … hold the memory of the storages. Writing is atomic. Reading checks every checksum, size and offset, and
never runs code from the file, whatever `weights_only` is.
"""

import os
import zipfile
import zlib
from collections import Counter, OrderedDict, defaultdict
from io import BytesIO
from mmap import ACCESS_COPY
from mmap import mmap as map_file
from sys import byteorder

import flambeau

from . import _C
from ._archive import ALIGNMENT, Archive, put, replacing
from ._pickle_reader import Allowed, PickleError, Reader
from ._pickle_writer import Global, Persistent, Reduce, Writer

_STORAGES = {  # PyTorch's storage classes and the dtypes they imply
    "BoolStorage": "bool", "ByteStorage": "uint8", "CharStorage": "int8", "ShortStorage": "int16",
    "IntStorage": "int32", "LongStorage": "int64", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "FloatStorage": "float32", "DoubleStorage": "float64", "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
}
_STORAGE_OF = {name: storage for storage, name in _STORAGES.items()}
_DTYPES = (*_STORAGE_OF, "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2")
DEFAULT_PROTOCOL = 2


def _dtype_name(dtype):
    return str(dtype).rpartition(".")[2]


# --- writing


class _Collector:
    """Turns tensors into references to numbered storages, each kept once however many tensors share it."""

    def __init__(self):
        self.storages = {}  # id of a storage -> (number, uint8 tensor over it)

    def special(self, obj, place):
        if isinstance(obj, flambeau.Tensor):
            return self.tensor(obj, place)
        if isinstance(obj, flambeau.Size):
            return Reduce(Global("torch", "Size"), (tuple(obj),))
        if isinstance(obj, flambeau.dtype):
            return Global("torch", _dtype_name(obj))
        if isinstance(obj, flambeau.device):
            return Reduce(Global("torch", "device"), (obj.type,) if obj.index is None else (obj.type, obj.index))
        for plain in (bool, int, float, str):  # NumPy's float64 and enumerations are subclasses of these
            if isinstance(obj, plain):
                return plain(obj)
        return None

    def tensor(self, t, place):
        parameter = flambeau.nn.Parameter
        if type(t) is parameter or getattr(t, "_is_param", False):
            args = (self.data(t.detach(), False), t.requires_grad, OrderedDict())
            state = {name: value for name, value in t.__dict__.items() if name != "_is_param"}
            if state:
                return Reduce(Global("torch._utils", "_rebuild_parameter_with_state"), (*args, state))
            return Reduce(Global("torch._utils", "_rebuild_parameter"), args)
        if type(t) is not flambeau.Tensor and not isinstance(t, getattr(flambeau.nn, "Buffer", parameter)):
            raise TypeError(f"{place} is a {type(t).__qualname__}: a Tensor subclass cannot be stored as data; "
                            "store x.as_subclass(flambeau.Tensor)")
        return self.data(t.detach(), t.requires_grad)

    def data(self, t, requires_grad):
        name = _dtype_name(t.dtype)
        if name not in _DTYPES:
            raise TypeError(f"a tensor of dtype {name} cannot be stored")
        shape, strides = tuple(t.shape), tuple(t.stride())
        if t.device.type == "meta":
            args = (Global("torch", name), shape, strides, requires_grad)
            return Reduce(Global("torch._utils", "_rebuild_meta_tensor_no_storage"), args)
        number, memory = self.storages.setdefault(_C.storage_id(t), (len(self.storages), _C.storage_bytes(t)))
        nbytes = memory.numel()
        typed = _STORAGE_OF.get(name)
        kind = Global("torch", typed) if typed else Global("torch.storage", "UntypedStorage")
        count = nbytes // t.element_size() if typed else nbytes
        storage = Persistent(("storage", kind, str(number), "cpu", count))
        args = (storage, t.storage_offset(), shape, strides, requires_grad, OrderedDict())
        if typed:
            return Reduce(Global("torch._utils", "_rebuild_tensor_v2"), args)
        return Reduce(Global("torch._utils", "_rebuild_tensor_v3"), (*args, Global("torch", name)))


def _write_archive(obj, file, top):
    collector = _Collector()
    try:
        pickled = Writer(collector.special).dump(obj)
    except RecursionError:
        raise ValueError("the object is nested too deeply to be stored") from None
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        put(archive, f"{top}/data.pkl", pickled)
        put(archive, f"{top}/.format_version", b"1")
        put(archive, f"{top}/.storage_alignment", str(ALIGNMENT).encode())
        put(archive, f"{top}/byteorder", byteorder.encode())
        checksum = zlib.crc32(pickled)
        for number, memory in collector.storages.values():
            data = memoryview(memory) if memory.numel() else b""
            put(archive, f"{top}/data/{number}", data)
        put(archive, f"{top}/version", b"3\n")
        put(archive, f"{top}/.data/serialization_id", f"{checksum:040d}".encode())


def save(obj, f, pickle_module=None, pickle_protocol=DEFAULT_PROTOCOL, _use_new_zipfile_serialization=True,
         _disable_byteorder_record=False):
    """Writes `obj` to `f`, a path or a file open for writing, in the format that `torch.load` reads.

    `obj` is made of tensors, parameters, numbers, strings, bytes, None, dtypes, devices, sizes, and tuples, lists,
    dicts and sets of these; tensors that share memory share it again after loading. Other objects are refused by
    name: store a module's `state_dict()`. A path is written atomically: whatever happens, there is the old file or the
    complete new one.

    >>> import flambeau, io
    >>> file = io.BytesIO()
    >>> flambeau.save({"w": flambeau.ones(2), "epoch": 3}, file)
    >>> flambeau.load(file)
    {'w': tensor([1., 1.]), 'epoch': 3}
    """
    if pickle_module is not None or pickle_protocol != DEFAULT_PROTOCOL:
        raise NotImplementedError("save: pickle_module and pickle_protocol cannot be chosen: protocol 2 is used")
    if not _use_new_zipfile_serialization:
        raise NotImplementedError("save: only PyTorch's zip file format is written")
    if hasattr(f, "write"):
        _save_to_file(obj, f)
        return
    path = os.fspath(f)
    top = os.path.splitext(os.path.basename(path))[0] or "archive"
    try:
        with replacing(path) as file:
            _write_archive(obj, file, top)
    except OSError as error:
        raise RuntimeError(f"save: cannot write {path}: {error.strerror or error}") from error
    except (TypeError, ValueError) as error:
        raise type(error)(f"save: {error}") from None


def _save_to_file(obj, file):
    seekable = getattr(file, "seekable", None)
    target = file if seekable is not None and seekable() else BytesIO()  # headers are completed after their data
    try:
        _write_archive(obj, target, "archive")
    except (TypeError, ValueError) as error:
        raise type(error)(f"save: {error}") from None
    if target is not file:
        file.write(target.getvalue())


# --- reading


class _Storage:
    """A storage of the file in memory: its bytes, the dtype its class implies, the place it is mapped to."""

    def __init__(self, memory, dtype, count, device):
        self.memory = memory
        self.dtype = dtype
        self.count = count  # elements, or bytes when the dtype is not implied
        self.device = device


class _Loader:
    """Builds the object of one archive. Its methods are all that names in the stream can call."""

    def __init__(self, archive, map_location, mapped):
        self.archive = archive
        self.map_location = map_location
        self.mapped = mapped  # the file's memory, with mmap=True
        self.memory = {}
        call = lambda function: Allowed(call=function)
        self.table = {
            "torch._utils._rebuild_tensor_v2": call(self.tensor),
            "torch._utils._rebuild_tensor": call(lambda *a: self.tensor(*a, False, None)),
            "torch._utils._rebuild_tensor_v3": call(self.tensor_v3),
            "torch._utils._rebuild_parameter": call(self.parameter),
            "torch._utils._rebuild_parameter_with_state": call(self.parameter_with_state),
            "torch._utils._rebuild_meta_tensor_no_storage": call(self.meta),
            "torch.Size": call(self.shape),
            "torch.device": call(flambeau.device),
            "torch.storage.UntypedStorage": Allowed(value="UntypedStorage"),
            "collections.OrderedDict": call(OrderedDict),
            "collections.Counter": call(lambda items=(): Counter(_checked(dict(items), dict))),
            "collections.defaultdict": call(lambda factory=None: defaultdict(_FACTORIES[factory])),
            "_codecs.encode": call(self.latin1),
        }
        for kind in (set, frozenset, list, tuple, dict):
            self.builtin(kind, lambda items=(), kind=kind: kind(_checked(items, (list, tuple, dict))))
        self.builtin(bytearray, self.byte_array)
        self.builtin(complex, lambda re, im: complex(_checked(re, (int, float)), _checked(im, (int, float))))
        self.builtin(int, None)
        self.builtin(float, None)
        for name in _STORAGES:
            self.table["torch." + name] = Allowed(value=name)
        for name in _DTYPES:
            self.table["torch." + name] = Allowed(value=getattr(flambeau, name))

    def builtin(self, kind, call):
        entry = Allowed(call=call, value="builtin " + kind.__name__)
        self.table["builtins." + kind.__name__] = self.table["__builtin__." + kind.__name__] = entry

    def load(self):
        data = self.archive.read("data.pkl")
        try:
            return Reader(data, self.find, self.storage).load()
        except PickleError as error:
            raise RuntimeError(f"load: {self.archive.name}: entry 'data.pkl': {error}") from error.__cause__

    def find(self, module, name):
        entry = self.table.get(f"{module}.{name}")
        if entry is None:
            raise PickleError(f"it names {module}.{name}, which is not plain data. No code is run from files; "
                              "save the object's state_dict() instead")
        return entry

    # --- what may be called

    def storage(self, key):
        if not (isinstance(key, tuple) and len(key) == 5 and key[0] == "storage"):
            raise PickleError(f"a reference to {key!r}")
        _, kind, number, location, count = key
        if not (isinstance(number, str) and isinstance(location, str) and type(count) is int and count >= 0):
            raise PickleError(f"a reference to {key!r}")
        if kind == "UntypedStorage":
            dtype, item = None, 1
        elif kind in _STORAGES:
            dtype = getattr(flambeau, _STORAGES[kind])
            item = dtype.itemsize
        else:
            raise PickleError(f"a storage of the kind {kind!r}")
        if number not in self.memory:
            self.memory[number] = self.place(self.fetch(number), location)
        memory = self.memory[number]
        if memory.numel() // item != count:
            raise PickleError(f"storage {number!r} claims {count * item} bytes, "
                              f"entry 'data/{number}' has {memory.numel()}")
        return _Storage(memory, dtype, count, memory.device)

    def fetch(self, number):
        """The bytes of a storage as a uint8 tensor."""
        entry = "data/" + number
        size = self.archive.size(entry)
        if self.mapped is not None:
            start = self.archive.offset(entry)
            if start + size > len(self.mapped):
                raise PickleError(f"entry {entry!r} reaches past the end of the file")
            if size == 0:
                return flambeau.empty(0, dtype=flambeau.uint8)
            return flambeau.frombuffer(self.mapped, dtype=flambeau.uint8, count=size, offset=start)
        memory = flambeau.empty(size, dtype=flambeau.uint8)
        if size:
            self.archive.read_into(entry, memoryview(memory))
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
        if kind == "cpu":
            return memory
        if kind == "meta":
            return memory.to("meta")
        raise PickleError(f"a tensor was saved on device {location!r} and is wanted on {wanted!r}, which is not there; "
                          "use map_location='cpu'")

    def tensor(self, storage, offset, size, stride, requires_grad, hooks, metadata=None):
        if not isinstance(storage, _Storage) or storage.dtype is None:
            raise PickleError("a tensor without a storage")
        return self.view(storage, storage.dtype, offset, size, stride, requires_grad, metadata)

    def tensor_v3(self, storage, offset, size, stride, requires_grad, hooks, dtype, metadata=None):
        if not isinstance(storage, _Storage) or not isinstance(dtype, flambeau.dtype):
            raise PickleError("a tensor without a storage or without a dtype")
        return self.view(storage, dtype, offset, size, stride, requires_grad, metadata)

    def view(self, storage, dtype, offset, size, stride, requires_grad, metadata):
        _check_layout(offset, size, stride, storage.memory.numel() // dtype.itemsize)
        if not isinstance(requires_grad, bool):
            raise PickleError(f"requires_grad is {requires_grad!r}")
        if storage.device.type == "meta":
            result = flambeau.empty_strided(size, stride, dtype=dtype, device="meta")
        else:
            result = _C.storage_view(storage.memory, dtype, offset, size, stride)
        for name in ("conj", "neg"):
            if isinstance(metadata, dict) and metadata.get(name):
                result = result.conj() if name == "conj" else result.neg()
        return result.requires_grad_() if requires_grad else result

    def parameter(self, data, requires_grad, hooks):
        if not isinstance(data, flambeau.Tensor) or not isinstance(requires_grad, bool):
            raise PickleError("a parameter without a tensor")
        return flambeau.nn.Parameter(data, requires_grad)

    def parameter_with_state(self, data, requires_grad, hooks, state):
        result = self.parameter(data, requires_grad, hooks)
        for name, value in _checked(state, dict).items():
            if not isinstance(name, str) or hasattr(result, name):
                raise PickleError(f"attribute {name!r} of a parameter")
            setattr(result, name, value)
        return result

    def meta(self, dtype, size, stride, requires_grad):
        if not isinstance(dtype, flambeau.dtype):
            raise PickleError("a tensor without a dtype")
        _check_layout(0, size, stride, None)
        result = flambeau.empty_strided(size, stride, dtype=dtype, device="meta")
        return result.requires_grad_() if requires_grad else result

    def shape(self, dims=()):
        if not all(type(n) is int for n in dims):
            raise PickleError(f"a size {dims!r}")
        return flambeau.Size(dims)

    def byte_array(self, data=b"", *encoding):
        return bytearray(self.latin1(data, *encoding) if encoding else _checked(data, bytes))

    def latin1(self, text, encoding="latin1"):
        if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
            raise PickleError(f"bytes in the encoding {encoding!r}")
        return text.encode("latin1")


_FACTORIES = {None: None, "builtin list": list, "builtin dict": dict, "builtin set": set, "builtin int": int,
              "builtin float": float}


def _checked(value, kinds):
    if not isinstance(value, kinds):
        raise PickleError(f"{type(value).__name__} where {kinds} is expected")
    return value


def _check_layout(offset, size, stride, room):
    """A tensor must lie inside its storage of `room` elements."""
    numbers = (offset, *size, *stride)
    if not (isinstance(size, tuple) and isinstance(stride, tuple) and len(size) == len(stride) <= 64):
        raise PickleError(f"a tensor of size {size!r} and stride {stride!r}")
    if not all(type(n) is int and 0 <= n < 1 << 62 for n in numbers):
        raise PickleError(f"a tensor of size {size!r}, stride {stride!r} and offset {offset!r}")
    last = offset + sum((n - 1) * step for n, step in zip(size, stride)) if all(size) else offset - 1
    if room is not None and last >= room:
        raise PickleError(f"a tensor of size {size}, stride {stride} and offset {offset} reaches past the end of its "
                          f"storage of {room} elements")


def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **pickle_load_args):
    """The object that `save`, or `torch.save`, wrote to `f`, a path or a file open for reading.

    No code from the file is run, and with `weights_only=False` neither: a file that needs it is refused, naming what it
    asks for. A truncated or damaged file raises a RuntimeError that names the file and the entry. `map_location`: a
    device, a dict {saved place: wanted place}, or a function (bytes of a storage, saved place) -> tensor or None.
    `mmap=True` leaves storages in the file until they are read (their checksums are then not compared); writing
    to such tensors does not change the file.

    >>> import flambeau, io
    >>> file = io.BytesIO()
    >>> flambeau.save([flambeau.arange(3)], file)
    >>> flambeau.load(file)
    [tensor([0, 1, 2])]
    """
    if pickle_module is not None or pickle_load_args.keys() - {"encoding"}:
        raise NotImplementedError("load: pickle_module and its arguments are not supported: files are read as data")
    if hasattr(f, "read"):
        if mmap:
            raise ValueError("load: f must be a file name in order to use the mmap argument")
        return _Loader(Archive(f, getattr(f, "name", "the file")), map_location, None).load()
    path = os.fspath(f)
    with open(path, "rb") as file:
        mapped = None
        if mmap and os.path.getsize(path):
            mapped = map_file(file.fileno(), 0, access=ACCESS_COPY)
        return _Loader(Archive(file, path), map_location, mapped).load()
