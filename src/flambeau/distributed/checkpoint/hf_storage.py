"""Folders of safetensors files, as Hugging Face's hub has them, read as checkpoints: each rank reads its part alone."""

import json

import flambeau

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
SCALES = "_scale_inv"  # after the name of a tensor in few bits: its blocks' factors


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
            found = self._found(item)
            target = planner.resolve_tensor(item).detach()
            target.copy_(found)
            planner.commit_tensor(item, target)
        future = Future()
        future.set_result(None)
        return future

    def _stored(self, index):
        """What a file has under a name."""
        return self._files[self.storage_data[index]].tensor(index.fqn)

    def _found(self, item):
        """The values that a rank asks for."""
        return _chunks.within(self._stored(item.storage_index), item.storage_offsets, item.lengths)


class QuantizedHuggingFaceStorageReader(HuggingFaceStorageReader):
    """`HuggingFaceStorageReader` for weights in few bits: a tensor beside which the files have `NAME_scale_inv` is read
    as its values times these, one for each block of `block_size` in each dimension, in `target_dtype`.

    Such a tensor must be whole in one file.

    >>> import flambeau, os, tempfile
    >>> import flambeau.distributed.checkpoint as dcp
    >>> state = {"w": flambeau.zeros(2, 3)}
    >>> with tempfile.TemporaryDirectory() as place:
    ...     stored = {"w": flambeau.ones(2, 3).to(flambeau.float8_e4m3fn), "w_scale_inv": flambeau.tensor([[2., 3.]])}
    ...     flambeau.safetensors.save_file(stored, os.path.join(place, "model.safetensors"))
    ...     dcp.load(state, storage_reader=dcp.QuantizedHuggingFaceStorageReader(place, block_size=2))
    >>> state["w"]
    tensor([[2., 2., 3.],
            [2., 2., 3.]])
    """

    def __init__(self, path, thread_count=1, target_dtype=flambeau.float32, block_size=128):
        super().__init__(path, thread_count)
        if type(block_size) is not int or block_size < 1:
            raise ValueError("QuantizedHuggingFaceStorageReader: block_size must be a positive int, got "
                             f"{shown(block_size)}")
        if not (isinstance(target_dtype, flambeau.dtype) and target_dtype.is_floating_point):
            raise TypeError("QuantizedHuggingFaceStorageReader: target_dtype must be a floating point dtype, got "
                            f"{shown(target_dtype)}")
        self.target_dtype, self.block_size = target_dtype, block_size

    def _found(self, item):
        found, name = super()._found(item), item.storage_index.fqn
        beside = MetadataIndex(name + SCALES, flambeau.Size([0] * found.ndim))
        if beside not in self.storage_data:
            return found
        scales, size = self._stored(beside), self._stored(item.storage_index).shape
        expected = tuple(-(-n // self.block_size) for n in size)
        if tuple(scales.shape) != expected or any(item.storage_index.offset or ()):
            raise RuntimeError(f"load: {name} is {shown(tuple(size))}, so for blocks of {self.block_size} "
                               f"{name + SCALES} must be {shown(expected)}, and both whole; got "
                               f"{shown(tuple(scales.shape))}")
        for dim, (offset, length) in enumerate(zip(item.storage_offsets, item.lengths)):
            blocks = flambeau.arange(offset, offset + length) // self.block_size
            scales = scales.index_select(dim, blocks)
        return (found.float() * scales.float()).to(self.target_dtype)
