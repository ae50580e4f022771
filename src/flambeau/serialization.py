"""`save` and `load`: objects of tensors and plain data in PyTorch's zip file format, both ways.

A file is a zip archive of uncompressed, 64-byte aligned entries: `data.pkl` says what the object is, `data/0`,
`data/1`, … hold the memory of the storages. Writing is atomic. Reading checks every checksum, size and offset, and
never runs code from the file, whatever `weights_only` is.
"""

import os
import zipfile
import zlib
from collections import OrderedDict
from io import BytesIO
from mmap import ACCESS_COPY
from mmap import mmap as map_file
from sys import byteorder

import flambeau

from . import _C
from ._files.archive import ALIGNMENT, Archive, put
from ._files.loader import DTYPES, STORAGES, Loader
from ._files.pickle_reader import PickleError, check_extent
from ._files.pickle_writer import Global, Persistent, Reduce, Writer
from ._files.replacing import replacing

DEFAULT_PROTOCOL = 2
_STORAGE_OF = {name: storage for storage, name in STORAGES.items()}


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
        if name not in DTYPES:
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


def _attributes(value):
    return vars(value).values() if isinstance(value, flambeau.nn.Parameter) else ()


def _write_archive(obj, file, top):
    collector = _Collector()
    try:
        pickled = Writer(collector.special).dump(obj)
    except RecursionError:
        raise ValueError("the object is nested too deeply to be stored") from None
    try:
        check_extent(obj, len(pickled), _attributes)
    except PickleError as error:
        raise ValueError(f"the object cannot be stored: {error}") from None
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
    path = os.fsdecode(f)
    top = os.path.splitext(os.path.basename(path))[0].encode(errors="replace").decode() or "archive"
    try:
        with replacing(path) as file:
            _write_archive(obj, file, top)
    except OSError as error:
        raise RuntimeError(f"save: cannot write {path}: {error.strerror or error}") from error
    except (TypeError, ValueError) as error:
        raise _named(error) from None


def _named(error):
    """The error with `save` before its text."""
    return (TypeError if isinstance(error, TypeError) else ValueError)(f"save: {error}")


def _save_to_file(obj, file):
    seekable = getattr(file, "seekable", None)
    target = file if seekable is not None and seekable() else BytesIO()  # headers are completed after their data
    try:
        _write_archive(obj, target, "archive")
    except (TypeError, ValueError) as error:
        raise _named(error) from None
    if target is not file:
        rest = target.getbuffer()
        while rest:  # a raw stream may take less than it is given
            written = file.write(rest)
            rest = rest[len(rest) if written is None else written:]


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
            raise ValueError("load: mmap=True reads from a file on disk; pass its name as f")
        return Loader(Archive(f, getattr(f, "name", "the file")), map_location, None).load()
    path = os.fsdecode(f)
    with open(path, "rb") as file:
        mapped = None
        if mmap and os.path.getsize(path):
            mapped = map_file(file.fileno(), 0, access=ACCESS_COPY)
        return Loader(Archive(file, path), map_location, mapped).load()
