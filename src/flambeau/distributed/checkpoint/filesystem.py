"""Checkpoints in folders: each rank writes files of its own, and the metadata, moved into place last, name them.

Until then the folder's earlier checkpoint is the one that is read: a save over it writes files of new names, and
removes the old ones when the new metadata are there.
"""

import contextlib
import io
import os
import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

import flambeau

from ..._shown import shown
from ...futures import Future
from . import _chunks
from ._folders import LocalFolder
from ._metadata_file import read_metadata, write_metadata
from ._reading import Part, TensorReader, fill
from ._storage_info import _StorageInfo as _StorageInfo
from .metadata import StorageMeta
from .planner import LoadItemType, WriteItemType
from .staging import BlockingAsyncStager
from .storage import StorageReader, StorageWriter, WriteResult

CURRENT_DCP_VERSION = "1.0.0"
DEFAULT_SUFFIX = ".distcp"
_METADATA = ".metadata"
_DATA = re.compile(r"__(\d+)_(?:[0-9a-f]{8}_)?\d+\.distcp")
#: characters of a save's id that its files are named after
_SHORT = 8


@dataclass
class _StoragePrefix:
    prefix: str


class SerializationFormat(Enum):
    """How the files hold tensors."""

    TORCH_SAVE = "torch_save"
    SAFETENSORS = "safetensors"


def _done(value):
    future = Future()
    future.set_result(value)
    return future


def _metadata_name(rank=None):
    return _METADATA if rank is None else f"__{rank}{_METADATA}"


def _is_folder(checkpoint_id):
    """Whether a text or path can be a folder of this machine."""
    if isinstance(checkpoint_id, Path):
        return True
    return isinstance(checkpoint_id, (str, os.PathLike)) and "://" not in str(checkpoint_id)


class FileSystemWriter(StorageWriter, BlockingAsyncStager):
    """Writes a checkpoint into the folder `path`, which is made where it is missing.

    With `single_file_per_rank`, a rank writes `thread_count` files, otherwise one for each item; with `sync_files` they
    are on the disk before the checkpoint counts. A folder that has a checkpoint keeps it until the new one is complete;
    with `overwrite=False`, saving there is a RuntimeError. `cache_staged_state_dict` keeps async_save's copy for the
    next one.
    """

    def __init__(self, path, single_file_per_rank=True, sync_files=True, thread_count=1,
                 per_thread_copy_ahead=10_000_000, cache_staged_state_dict=False, overwrite=True, _extensions=None,
                 serialization_format=SerializationFormat.TORCH_SAVE):
        super().__init__()
        BlockingAsyncStager.__init__(self, cache_staged_state_dict)
        if _extensions:
            raise NotImplementedError("FileSystemWriter: _extensions, which transform the files, are not available; "
                                      "leave them out")
        if serialization_format != SerializationFormat.TORCH_SAVE:
            raise NotImplementedError("FileSystemWriter: serialization_format must be TORCH_SAVE; for files of the "
                                      "safetensors format use flambeau.safetensors.save_file")
        if thread_count < 1:
            raise ValueError(f"FileSystemWriter: thread_count must be at least 1, got {shown(thread_count)}")
        self.folder = self._folder_at(path)
        self.single_file_per_rank, self.sync_files = single_file_per_rank, sync_files
        self.thread_count, self.per_thread_copy_ahead, self.overwrite = thread_count, per_thread_copy_ahead, overwrite
        self.save_id, self.rank, self.use_collectives = str(uuid.uuid4()), None, True

    def _folder_at(self, path):
        return LocalFolder(path)

    @property
    def path(self):
        """The folder's path."""
        return self.folder.path

    def reset(self, checkpoint_id=None):
        if checkpoint_id:
            self.folder = self._folder_at(checkpoint_id)
        self.save_id = str(uuid.uuid4())

    def set_up_storage_writer(self, is_coordinator, *args, **kwargs):
        self.rank, self.use_collectives = kwargs.get("rank"), kwargs.get("use_collectives", True)

    def _own_metadata(self):
        """The file that this rank's `finish` writes."""
        return _metadata_name(None if self.use_collectives or self.rank is None else self.rank)

    def _prefix(self, rank):
        """What the files of a rank begin with: nothing of a checkpoint that is there may have the name."""
        return f"__{rank}_{self.save_id[:_SHORT]}_" if self.folder.has(self._own_metadata()) else f"__{rank}_"

    def prepare_local_plan(self, plan):
        self.folder.make()
        if not self.overwrite and self.folder.has(self._own_metadata()):
            raise RuntimeError(f"save: {self.folder} has a checkpoint already; save into another folder, or with "
                               "FileSystemWriter(…, overwrite=True)")
        if self.rank is not None and not self.use_collectives:
            return replace(plan, storage_data=_StoragePrefix(self._prefix(self.rank)))
        return plan

    def prepare_global_plan(self, plans):
        return [replace(plan, storage_data=plan.storage_data or _StoragePrefix(self._prefix(rank)))
                for rank, plan in enumerate(plans)]

    def write_data(self, plan, planner):
        shares = _shares(plan.items, self.thread_count) if self.single_file_per_rank else [[i] for i in plan.items]
        names = [f"{plan.storage_data.prefix}{k}{DEFAULT_SUFFIX}" for k in range(len(shares))]
        with ThreadPoolExecutor(self.thread_count) as pool:
            found = pool.map(lambda name, items: self._write(name, items, planner), names, shares)
            return _done([result for results in found for result in results])

    def _write(self, name, items, planner):
        """One file; items that are no tensors come first."""
        results = []
        with self.folder.open(name, "wb") as file:
            for item in sorted(items, key=lambda item: item.type != WriteItemType.BYTE_IO):
                start, value = file.tell(), planner.resolve_data(item)
                if item.type == WriteItemType.BYTE_IO:
                    file.write(value.getbuffer())
                else:
                    flambeau.save(_alone(value.detach()), file)
                length = file.tell() - start
                results.append(WriteResult(item.index, length, _StorageInfo(name, start, length)))
            if self.sync_files:
                file.flush()
                with contextlib.suppress(AttributeError, io.UnsupportedOperation):  # no file of this machine
                    os.fsync(file.fileno())
        return results

    def finish(self, metadata, results):
        metadata.version = CURRENT_DCP_VERSION
        metadata.storage_data = {each.index: each.storage_data for part in results for each in part}
        metadata.storage_meta = self.storage_meta()
        with self.folder.replace(self._own_metadata()) as file:
            write_metadata(metadata, file)
        self._clear({place.relative_path for place in metadata.storage_data.values()})

    def _clear(self, used):
        """Removes the files of checkpoints that this one has replaced, and of saves that were not completed."""
        for name in self.folder.names():
            found = _DATA.fullmatch(name)
            if found and name not in used and (self.use_collectives or int(found[1]) == self.rank):
                self.folder.remove(name)

    def storage_meta(self):
        return StorageMeta(checkpoint_id=str(self.folder), save_id=self.save_id)

    @property
    def checkpoint_id(self):
        """The folder."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return _is_folder(checkpoint_id)


def _alone(tensor):
    """A tensor whose file has its own elements only, and not those of the tensor that it is a view of."""
    if tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes():
        return tensor
    return tensor.clone()


def _shares(items, count):
    """The items in `count` lists of about the same size; the largest are shared out first."""
    if count == 1:
        return [items]
    shares, loads = [[] for _ in range(count)], [0] * count
    for size, item in sorted(((_chunk_bytes(item), item) for item in items), key=lambda pair: -pair[0]):
        k = loads.index(min(loads))
        shares[k].append(item)
        loads[k] += size
    return shares


def _chunk_bytes(item):
    data = item.tensor_data
    return 1 if data is None else data.chunk.sizes.numel() * data.properties.dtype.itemsize


# --- reading ----------------------------------------------------------------------------------------------------------

class FileSystemReader(StorageReader):
    """Reads a checkpoint from the folder `path`, which FileSystemWriter, or PyTorch's, has written.

    No code from the files is run. A rank reads the chunks that meet its own, each once.
    """

    def __init__(self, path, _extension_registry=None):
        super().__init__()
        if _extension_registry is not None:
            raise NotImplementedError("FileSystemReader: _extension_registry, whose extensions transform files, is not "
                                      "available; leave it out")
        self.folder, self.storage_data, self.load_id = self._folder_at(path), {}, str(uuid.uuid4())
        self.rank, self.use_collectives = None, True

    def _folder_at(self, path):
        return LocalFolder(path)

    @property
    def path(self):
        """The folder's path."""
        return self.folder.path

    def reset(self, checkpoint_id=None):
        if checkpoint_id:
            self.folder = self._folder_at(checkpoint_id)
        self.storage_data, self.load_id = {}, str(uuid.uuid4())

    def read_metadata(self, *args, **kwargs):
        name = _metadata_name(kwargs.get("rank"))
        if not self.folder.has(name):
            raise FileNotFoundError(f"load: {self.folder} has no checkpoint: there is no {name} in it (a save that was "
                                    "not completed leaves none)")
        with self.folder.open(name) as file:
            found = read_metadata(file.read(), f"{self.folder}/{name}")
        found.storage_meta = found.storage_meta or StorageMeta()
        found.storage_meta.load_id = self.load_id
        return found

    def set_up_storage_reader(self, metadata, is_coordinator, *args, **kwargs):
        self.rank, self.use_collectives = kwargs.get("rank"), kwargs.get("use_collectives", True)
        if metadata.storage_data is None:
            raise RuntimeError(f"load: the metadata of {self.folder} do not say where its items lie")
        self.storage_data = metadata.storage_data

    def prepare_local_plan(self, plan):
        return plan

    def prepare_global_plan(self, plans):
        return plans

    def read_data(self, plan, planner):
        files = {}
        for item in plan.items:
            place = self.storage_data.get(item.storage_index)
            if place is None:
                raise RuntimeError(f"load: the metadata of {self.folder} do not say where "
                                   f"{shown(item.storage_index.fqn)} lies")
            if place.transform_descriptors:
                raise NotImplementedError(f"load: {place.relative_path} was written through transformations "
                                          f"({shown(list(place.transform_descriptors))}), which are not available")
            files.setdefault(place.relative_path, {}).setdefault((place.offset, place.length), []).append(item)
        for name, pieces in files.items():
            with self.folder.open(name) as file:
                self._read_file(file, pieces, planner, name)
        return _done(None)

    def _read_file(self, file, pieces, planner, name):
        """The items of one file, front to back: {(offset, length): items}."""
        size, path, reader = self.folder.size(name), f"{self.folder}/{name}", TensorReader()
        for (offset, length), items in sorted(pieces.items()):
            if offset + length > size:
                raise RuntimeError(f"load: {path} has {size} bytes, expected at least {offset + length}: it is "
                                   "not the file that was saved")
            tensor = None
            for item in items:
                if item.type == LoadItemType.BYTE_IO:
                    file.seek(offset)
                    planner.load_bytes(item, io.BytesIO(file.read(length)))
                    continue
                target = planner.resolve_tensor(item).detach()
                if tensor is None:
                    tensor = reader.read(Part(file, offset, length, path), target if len(items) == 1 else None)
                found = _chunks.within(tensor, item.storage_offsets, item.lengths)
                if target.shape != found.shape:
                    raise RuntimeError(f"load: {shown(item.dest_index.fqn)}: the planner gives a tensor of size "
                                       f"{tuple(target.shape)} for values of size {tuple(found.shape)}")
                fill(target, found)
                planner.commit_tensor(item, target)

    @property
    def checkpoint_id(self):
        """The folder."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return _is_folder(checkpoint_id)
