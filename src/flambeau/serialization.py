"""`save` and `load`: objects of tensors and plain data in PyTorch's zip file format, both ways.

A file is a zip archive of uncompressed, 64-byte aligned entries: `data.pkl` says what the object is, `data/0`,
`data/1`, … hold the memory of the storages. Writing is atomic. Reading checks every checksum, size and offset, and
never runs code from the file; it calls what the user has named as safe, and nothing else.
"""

import os
import pickle
from collections.abc import Callable
from typing import IO

import flambeau

from ._files.archive import write_archive
from ._files.background import in_background
from ._files.collector import Collector
from ._files.extent import PickleError, check_extent
from ._files.inspecting import Inspector
from ._files.legacy import LegacyArchive, write_legacy
from ._files.loader import Loader
from ._files.mapping import mapped
from ._files.numpy_format import save_npy as save_npy
from ._files.numpy_format import save_npz as save_npz
from ._files.opening import format_of, from_here, opened, start_of, tensors_of
from ._files.pickle_writer import Writer
from ._files.placing import default_restore_location as default_restore_location
from ._files.placing import location_tag as location_tag
from ._files.placing import register_package as register_package
from ._files.placing import validate_cuda_device as validate_cuda_device
from ._files.placing import validate_hpu_device as validate_hpu_device
from ._files.replacing import replacing
from ._files.safe import add_safe_globals as add_safe_globals
from ._files.safe import clear_safe_globals as clear_safe_globals
from ._files.safe import get_safe_globals as get_safe_globals
from ._files.safe import safe_globals as safe_globals
from ._files.settings import LoadEndianness as LoadEndianness
from ._files.settings import get_crc32_options as get_crc32_options
from ._files.settings import get_default_load_endianness as get_default_load_endianness
from ._files.settings import get_default_mmap_options as get_default_mmap_options
from ._files.settings import set_crc32_options as set_crc32_options
from ._files.settings import set_default_load_endianness as set_default_load_endianness
from ._files.settings import set_default_mmap_options as set_default_mmap_options
from ._files.settings import shared
from ._files.skipping import Zeros, skipping
from ._files.skipping import skip_data as skip_data
from ._files.versions import SourceChangeWarning as SourceChangeWarning
from ._files.versions import check_module_version_greater_or_equal as check_module_version_greater_or_equal
from ._files.versions import mkdtemp as mkdtemp
from ._files.versions import normalize_storage_type as normalize_storage_type
from ._files.versions import storage_to_tensor_type as storage_to_tensor_type
from ._shown import listed, shown

DEFAULT_PROTOCOL = 2
MAP_LOCATION = Callable[[flambeau.UntypedStorage, str], flambeau.UntypedStorage] | flambeau.device | str | \
    dict[str, str] | None
FILE_LIKE = str | os.PathLike[str] | IO[bytes]


class _Content:
    """An object in the form that files have: the stream that describes it, and its storages."""

    def __init__(self, obj, legacy):
        self.legacy = legacy
        collector = Collector(legacy)
        try:
            self.stream = Writer(collector.special).dump(obj)
        except RecursionError:
            raise ValueError("the object is nested too deeply to be stored") from None
        try:
            check_extent(obj, len(self.stream), collector.attributes)
        except PickleError as error:
            raise ValueError(f"the object cannot be stored: {error}") from None
        self.storages = dict(collector.storages.values())  # number -> its bytes
        if skipping():
            self.storages = {number: Zeros(memory.numel()) for number, memory in self.storages.items()}
        self.items = {number: item for number, (_, item) in collector.types.items()}

    def write(self, file, top):
        if self.legacy:
            write_legacy(file, self.stream, self.storages, self.items)
        else:
            write_archive(file, top, self.stream, self.storages)


def save(obj, f, pickle_module=None, pickle_protocol=DEFAULT_PROTOCOL, _use_new_zipfile_serialization=True,
         _disable_byteorder_record=False, *, background=False):
    """Writes `obj` to `f`, a path or a file open for writing, in the format that `torch.load` reads.

    `obj` is made of tensors, numbers, strings, containers, NumPy arrays, paths, dates, and objects of classes that are
    found in their module, modules of a network among them; tensors that share memory share it again after loading.
    What `load` reads without being told to trust it: docs/saving.md. A path is written atomically: whatever happens,
    there is the old file or the complete new one.

    Whatever `pickle_protocol` is, files have protocol 2, which all readers know. `pickle_module` may be Python's own.

    With `background=True` the values are copied, and a thread writes them while the program goes on (one file after the
    other, in the order of the calls). It returns a `concurrent.futures.Future`, whose `result()` waits, and raises what
    went wrong. A program that ends waits for what is still to be written.

    >>> import flambeau, io
    >>> file = io.BytesIO()
    >>> flambeau.save({"w": flambeau.ones(2), "epoch": 3}, file)
    >>> flambeau.load(file)
    {'w': tensor([1., 1.]), 'epoch': 3}
    """
    _check_pickle("save", pickle_module)
    if not isinstance(pickle_protocol, int) or not 0 <= pickle_protocol <= pickle.HIGHEST_PROTOCOL:
        raise ValueError(f"save: pickle_protocol must be from 0 to {pickle.HIGHEST_PROTOCOL}, got "
                         f"{shown(pickle_protocol)}")
    try:
        content = _Content(obj, not _use_new_zipfile_serialization)
    except (TypeError, ValueError) as error:
        raise (TypeError if isinstance(error, TypeError) else ValueError)(f"save: {error}") from None
    if background:
        return in_background(content, lambda content: _write(content, f))
    return _write(content, f)


def _check_pickle(name, module):
    """Files are written and read as data by this library itself, in the way of Python's own pickle."""
    if module not in (None, pickle):
        raise NotImplementedError(f"{name}: pickle_module={shown(module)} is not available: files are data, and no "
                                  "such module writes or reads them")


def _write(content, f):
    if hasattr(f, "write"):
        content.write(f, "archive")
        if hasattr(f, "flush"):
            f.flush()  # others may read the file before it is closed
        return
    path = os.fsdecode(f)
    top = os.path.splitext(os.path.basename(path))[0].encode(errors="replace").decode() or "archive"
    try:
        with replacing(path) as file:
            content.write(file, top)
    except OSError as error:
        raise RuntimeError(f"save: cannot write {path}: {error.strerror or error}") from error


def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **pickle_load_args):
    """The object that `save`, or `torch.save`, wrote to `f`, a path or a file open for reading; the tensor of a .npy
    file, or {name: tensor} of a .npz or safetensors file.

    No code from the file is run, and nothing is imported for it. A file may name plain data, and what
    `serialization.add_safe_globals` trusts; with `weights_only=False` also classes that the program has imported, whose
    objects are then made by `__new__` and given their attributes. What it may not name is an UnpicklingError that says
    what to do; a truncated or damaged file raises a RuntimeError that names the file and the entry.

    `map_location`: a device, a dict {saved place: wanted place}, or a function (bytes of a storage, saved place) ->
    tensor or None. `mmap=True` leaves storages in the file until they are read (their checksums are then not compared);
    writing to such tensors does not change the file, unless `set_default_mmap_options` says so.

    >>> import flambeau, io
    >>> file = io.BytesIO()
    >>> flambeau.save([flambeau.arange(3)], file)
    >>> flambeau.load(file)
    [tensor([0, 1, 2])]
    """
    _check_pickle("load", pickle_module)
    if pickle_load_args.keys() - {"encoding", "fix_imports"}:
        raise NotImplementedError(f"load: {listed(sorted(pickle_load_args))}: files are read as data, without a pickle "
                                  "module; leave its arguments out")
    options = weights_only is not False, pickle_load_args.get("encoding", "utf-8")
    if hasattr(f, "read"):
        if mmap:
            raise ValueError("load: mmap=True reads from a file on disk; pass its name as f")
        try:
            return _load_file(from_here(f), getattr(f, "name", "the file"), map_location, False, options)
        finally:
            f.seek(0, os.SEEK_END)  # and not to where another entry begins
    path = os.fsdecode(f)
    with open(path, "r+b" if mmap and shared() else "rb") as file:
        return _load_file(file, path, map_location, mmap, options)


def _load_file(file, name, map_location, mmap, options):
    size = file.seek(0, os.SEEK_END)
    kind = format_of(start_of(file), size)
    if kind != "objects":
        if mmap and shared() and kind == "safetensors":
            raise NotImplementedError(f"load: {name}: changes of tensors do not reach a safetensors file; use "
                                      "mmap.MAP_PRIVATE")
        found = tensors_of(kind, file, name, mapped(file, shared()) if mmap else None)
        return _placed(found, map_location)
    archive = opened(file, name)
    if mmap and isinstance(archive, LegacyArchive):
        raise RuntimeError(f"load: {name} is in the format before PyTorch 1.6, whose parts are not aligned: mmap=True "
                           "needs a file as save writes it")
    return Loader(archive, map_location, mapped(file, shared()) if mmap else None, *options, skipping()).load()


def _placed(found, map_location):
    """Tensors of a file that does not say where they were, where the user wants them."""
    if isinstance(found, dict):
        return {name: _placed(value, map_location) for name, value in found.items()}
    if map_location is None or not isinstance(found, flambeau.Tensor):
        return found
    if callable(map_location):
        raise TypeError("load: map_location as a function is for files of save, whose tensors have a place")
    return found.to(map_location.get("cpu", "cpu") if isinstance(map_location, dict) else map_location)


def get_unsafe_globals_in_checkpoint(f):
    """The names in a file that `load` would refuse: classes and functions that are neither plain data nor trusted.

    >>> import flambeau, io
    >>> file = io.BytesIO()
    >>> flambeau.save(flambeau.nn.ReLU(), file)
    >>> flambeau.serialization.get_unsafe_globals_in_checkpoint(file)
    ['torch.nn.modules.activation.ReLU']
    """
    if not hasattr(f, "read"):
        with open(f, "rb") as file:
            return get_unsafe_globals_in_checkpoint(file)
    inspector = Inspector(opened(f, getattr(f, "name", "the file")))
    inspector.load()
    return list(inspector.unknown)
