"""Folders of safetensors files, as Hugging Face's hub has them, read as checkpoints: each rank reads its part alone."""

import json

import flambeau

from ..._absent import refusals
from ..._files.safetensors_format import File
from ..._shown import shown
from ...futures import Future
from . import _chunks
from .filesystem import FileSystemReader
from .metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)

#: what PyTorch's writer says of parts of tensors in the header of a file: {name: {"saved_offsets": […]}} as text
PARTS = "DCP_SHARDING_INFO"


class HuggingFaceStorageReader(FileSystemReader):
    """For `load(state_dict, storage_reader=HuggingFaceStorageReader(folder))`: tensors by the names in the files.

    All files of the folder that end with .safetensors are one checkpoint, with whole tensors or with the parts that
    PyTorch's distributed writer leaves. Files are mapped, and a rank reads what it needs of them.

    >>> import flambeau, os, tempfile
    >>> import flambeau.distributed.checkpoint as dcp
    >>> state = {"w": flambeau.zeros(2)}
    >>> with tempfile.TemporaryDirectory() as place:
    ...     flambeau.safetensors.save_file({"w": flambeau.ones(2)}, os.path.join(place, "model.safetensors"))
    ...     dcp.load(state, storage_reader=dcp.HuggingFaceStorageReader(place))
    >>> state
    {'w': tensor([1., 1.])}
    """

    def __init__(self, path, thread_count=1):
        super().__init__(path)
        if thread_count != 1:
            raise NotImplementedError("HuggingFaceStorageReader: thread_count must be 1: mapped files are read by all "
                                      "cores as it is")
        self._files = {}

    def read_metadata(self, *args, **kwargs):
        self._files = {path.name: File(path) for path in sorted(self.path.glob("*.safetensors"))}
        if not self._files:
            raise FileNotFoundError(f"load: {self.path} has no files that end with .safetensors")
        stored, places = {}, {}
        for name, file in self._files.items():
            parts = json.loads(file.metadata.get(PARTS, "{}"))
            for key, (_, shape, _, _) in file.tensors.items():
                offsets = flambeau.Size(parts.get(key, {}).get("saved_offsets", [0] * len(shape)))
                if len(offsets) != len(shape):
                    raise RuntimeError(f"load: {file.path}: the place of {shown(key)} is {shown(tuple(offsets))}, and "
                                       f"its shape {shown(tuple(shape))}")
                chunk = ChunkStorageMetadata(offsets, flambeau.Size(shape))
                properties = TensorProperties(file.tensor(key).dtype)
                known = stored.setdefault(key, TensorStorageMetadata(properties, flambeau.Size(shape), []))
                known.chunks.append(chunk)
                known.size = flambeau.Size(max(n, a + m) for n, a, m in zip(known.size, offsets, shape))
                places[MetadataIndex(key, offsets)] = name
        return Metadata(stored, storage_data=places, storage_meta=StorageMeta(load_id=self.load_id))

    def read_data(self, plan, planner):
        for item in plan.items:
            file = self._files[self.storage_data[item.storage_index]]
            found = _chunks.within(file.tensor(item.storage_index.fqn), item.storage_offsets, item.lengths)
            target = planner.resolve_tensor(item).detach()
            target.copy_(found)
            planner.commit_tensor(item, target)
        future = Future()
        future.set_result(None)
        return future


_REASON = "it is not available yet; docs/distributed.md says what is"
globals().update(refusals("distributed.checkpoint", _REASON, """
    QuantizedHuggingFaceStorageReader(path, thread_count, target_dtype, block_size)
"""))
