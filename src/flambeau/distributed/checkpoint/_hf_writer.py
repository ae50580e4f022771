"""Checkpoints as folders of safetensors files, as Hugging Face has them: whole tensors, or the parts of ranks."""

import contextlib
import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import flambeau

from ..._files.replacing import replacing
from ..._files.safetensors_format import File, save_file
from ..._shown import listed, shown
from ...futures import Future
from ._storage_info import _StorageInfo
from .filesystem import FileSystemWriter
from .hf_storage import PARTS
from .planner import WriteItemType
from .storage import WriteResult

_INDEX = "model.safetensors.index.json"
_PARTS_FOLDER = "sharded"  # for parts that are put together afterwards
_OWN = re.compile(r"(?:shard-\d{5}-)?model-\d{5}-of-\d{5}\.safetensors")


def _file_name(index, count, shard=None):
    return f"{'' if shard is None else f'shard-{shard:05d}-'}model-{index:05d}-of-{count:05d}.safetensors"


class HuggingFaceStorageWriter(FileSystemWriter):
    """For `save(state_dict, storage_writer=HuggingFaceStorageWriter(folder))`: tensors alone, under names without dots
    added where the state dict is flat.

    The files are called model-00001-of-00002.safetensors and so on, by `fqn_to_index_mapping`, {name: number of its
    file from 1}; without it there is one. model.safetensors.index.json tells which has what. Tensors that are spread
    need `save_distributed`: each rank writes its parts into files of its own, which HuggingFaceStorageReader reads, and
    `enable_consolidation` has the first rank put them together afterwards. `thread_count` files are written at a time,
    and `thread_count_consolidation` put together. Files of a save before this one are replaced one by one: for a
    checkpoint that counts as a whole, take a new folder.

    >>> import flambeau, os, tempfile
    >>> import flambeau.distributed.checkpoint as dcp
    >>> with tempfile.TemporaryDirectory() as place:
    ...     _ = dcp.save({"w": flambeau.ones(2)}, storage_writer=dcp.HuggingFaceStorageWriter(place))
    ...     sorted(os.listdir(place))
    ['model-00001-of-00001.safetensors', 'model.safetensors.index.json']
    """

    def __init__(self, path, fqn_to_index_mapping=None, thread_count=1, save_distributed=False,
                 enable_consolidation=False, thread_count_consolidation=1):
        super().__init__(path, thread_count=thread_count)
        if enable_consolidation and not save_distributed:
            raise ValueError("HuggingFaceStorageWriter: enable_consolidation puts parts together, which are written "
                             "with save_distributed=True alone")
        self.fqn_to_index_mapping, self.save_distributed = fqn_to_index_mapping, save_distributed
        self.enable_consolidation, self.thread_count_consolidation = enable_consolidation, thread_count_consolidation

    def _parts(self):
        """Where the ranks' files go."""
        return Path(self.path) / _PARTS_FOLDER if self.enable_consolidation else Path(self.path)

    def _number(self, name):
        """The number of a tensor's file."""
        if self.fqn_to_index_mapping is None:
            return 1
        if name not in self.fqn_to_index_mapping:
            raise ValueError(f"HuggingFaceStorageWriter: fqn_to_index_mapping does not say into which file "
                             f"{shown(name)} goes")
        return self.fqn_to_index_mapping[name]

    def _count(self):
        return max(self.fqn_to_index_mapping.values(), default=1) if self.fqn_to_index_mapping else 1

    # --- planning -----------------------------------------------------------------------------------------------------

    def prepare_local_plan(self, plan):
        if not self.use_collectives:
            raise NotImplementedError("HuggingFaceStorageWriter: use_collectives=False is not available; its files "
                                      "belong together")
        for item in plan.items:
            if item.type == WriteItemType.BYTE_IO:
                raise ValueError(f"HuggingFaceStorageWriter: {shown(item.index.fqn)} is no tensor, and safetensors "
                                 "files have tensors alone; save it elsewhere")
            if item.type == WriteItemType.SHARD and not self.save_distributed:
                raise ValueError(f"HuggingFaceStorageWriter: {shown(item.index.fqn)} is spread over ranks; give "
                                 "save_distributed=True, or save its full_tensor()")
        self._parts().mkdir(parents=True, exist_ok=True)
        return replace(plan, storage_data=frozenset(item.index for item in plan.items))  # what this rank could write

    def prepare_global_plan(self, plans):
        return plans if self.save_distributed else self._one_rank_each(plans)

    def _one_rank_each(self, plans):
        """The plans with the items of a file in one of them."""
        files = {}
        for plan in plans:
            for item in plan.items:
                files.setdefault(self._number(item.index.fqn), []).append(item)
        shares, loads = [[] for _ in plans], [0] * len(plans)
        for items in files.values():
            able = [r for r, plan in enumerate(plans) if all(item.index in plan.storage_data for item in items)]
            if not able:
                raise ValueError("HuggingFaceStorageWriter: no rank has all tensors of the file with "
                                 f"{listed(sorted(item.index.fqn for item in items))}; give save_distributed=True")
            rank = min(able, key=lambda r: loads[r])
            shares[rank] += items
            loads[rank] += sum(map(_bytes_of, items))
        return [replace(plan, items=share) for plan, share in zip(plans, shares)]

    # --- writing ------------------------------------------------------------------------------------------------------

    def write_data(self, plan, planner):
        files = {}
        for item in plan.items:
            files.setdefault(self._number(item.index.fqn), []).append(item)
        with ThreadPoolExecutor(self.thread_count) as pool:
            found = pool.map(lambda number: self._write_file(number, files[number], planner), sorted(files))
            future = Future()
            future.set_result([result for results in found for result in results])
        return future

    def _write_file(self, number, items, planner):
        name = _file_name(number, self._count(), (self.rank or 0) + 1 if self.save_distributed else None)
        tensors, memory, parts = {}, set(), {}
        for item in items:
            value = planner.resolve_data(item).detach().contiguous()
            key = value.untyped_storage().data_ptr()
            tensors[item.index.fqn] = value.clone() if key in memory or not _fills_memory(value) else value
            memory.add(key)
            parts[item.index.fqn] = {"saved_offsets": list(item.tensor_data.chunk.offsets)}
        about = {"format": "pt"} | ({PARTS: json.dumps(parts), "DCP_VERSION": "1.0"} if self.save_distributed else {})
        save_file(tensors, self._parts() / name, about)
        return [WriteResult(item.index, tensors[item.index.fqn].nbytes, _StorageInfo(name, 0, 0)) for item in items]

    def finish(self, metadata, results):
        written = {each.storage_data.relative_path for part in results for each in part}
        if self.save_distributed and not self.enable_consolidation:
            return self._remove_others(Path(self.path), written)
        if self.enable_consolidation:
            self._remove_others(self._parts(), written)
            places = self._consolidated(metadata)
        else:
            places = {each.index.fqn: each.storage_data.relative_path for part in results for each in part}
        total = sum(stored.size.numel() * stored.properties.dtype.itemsize
                    for stored in metadata.state_dict_metadata.values())
        with replacing(Path(self.path) / _INDEX) as file:
            file.write(json.dumps({"metadata": {"total_size": total}, "weight_map": places}, indent=2).encode())
        return self._remove_others(Path(self.path), set(places.values()))

    def _consolidated(self, metadata):
        """Puts the parts together; {name: its file}."""
        groups = {}
        for name in metadata.state_dict_metadata:
            groups.setdefault(self._number(name), []).append(name)
        files = [File(path) for path in sorted(self._parts().glob("*.safetensors"))]

        def whole(number):
            tensors = {name: self._put_together(name, metadata.state_dict_metadata[name], files)
                       for name in groups[number]}
            save_file(tensors, Path(self.path) / _file_name(number, self._count()), {"format": "pt"})

        with ThreadPoolExecutor(self.thread_count_consolidation) as pool:
            list(pool.map(whole, groups))
        return {name: _file_name(number, self._count()) for number, names in groups.items() for name in names}

    @staticmethod
    def _put_together(name, stored, files):
        found = flambeau.empty(stored.size, dtype=stored.properties.dtype)
        for file in files:
            if name in file.tensors:
                part, place = file.tensor(name), found
                for dim, start in enumerate(json.loads(file.metadata[PARTS])[name]["saved_offsets"]):
                    place = place.narrow(dim, start, part.shape[dim])
                place.copy_(part)
        return found

    @staticmethod
    def _remove_others(folder, used):
        """Removes the files of an earlier save."""
        for path in folder.glob("*.safetensors"):
            if _OWN.fullmatch(path.name) and path.name not in used:
                with contextlib.suppress(OSError):
                    path.unlink()


def _bytes_of(item):
    return item.tensor_data.chunk.sizes.numel() * item.tensor_data.properties.dtype.itemsize


def _fills_memory(value):
    return value.nbytes == value.untyped_storage().nbytes()
