"""What a checkpoint says of itself: for each name the tensor's size and chunks, and in which file each chunk lies."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import flambeau


class _MEM_FORMAT_ENCODING(Enum):
    """How the file writes a memory format."""

    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2


_FORMATS = {"contiguous_format": 0, "channels_last": 1, "preserve_format": 2}


@dataclass
class ChunkStorageMetadata:
    """A box of a tensor: where it begins, how large it is; both torch.Size."""

    offsets: flambeau.Size
    sizes: flambeau.Size


@dataclass
class TensorProperties:
    """What a tensor is besides its size and values."""

    dtype: flambeau.dtype = field(default_factory=flambeau.get_default_dtype)
    layout: flambeau.layout = flambeau.strided
    requires_grad: bool = False
    memory_format: flambeau.memory_format = flambeau.contiguous_format
    pin_memory: bool = False

    def __getstate__(self):
        form = _MEM_FORMAT_ENCODING(_FORMATS[str(self.memory_format).rpartition(".")[2]])
        return self.dtype, self.layout, self.requires_grad, form, self.pin_memory

    def __setstate__(self, state):
        self.dtype, self.layout, self.requires_grad, form, self.pin_memory = state
        self.memory_format = getattr(flambeau, list(_FORMATS)[_MEM_FORMAT_ENCODING(form).value])

    @staticmethod
    def create_from_tensor(tensor):
        """Those of a tensor."""
        return TensorProperties(tensor.dtype, tensor.layout, tensor.requires_grad, pin_memory=tensor.is_pinned())


@dataclass
class TensorStorageMetadata:
    """A tensor: its properties, its whole size, and the chunks that it is stored in."""

    properties: TensorProperties
    size: flambeau.Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """A value that is no tensor."""


STORAGE_TYPES = TensorStorageMetadata | BytesStorageMetadata
STATE_DICT_TYPE = dict[str, Any]


@dataclass
class StorageMeta:
    """Which checkpoint this is, and which save or load."""

    checkpoint_id: Any = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """All of it: {name: what is stored}, what the planner adds (the path of each name), and {MetadataIndex: place}."""

    state_dict_metadata: dict[str, STORAGE_TYPES]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None


@dataclass(frozen=True, init=False)
class MetadataIndex:
    """The key of a chunk: the name and where it begins. `index` is a hint where to look, no part of the key."""

    fqn: str
    offset: flambeau.Size | None = None
    index: int | None = field(default=None, hash=False, compare=False)

    def __init__(self, fqn, offset=None, index=None):
        given = {"fqn": fqn, "index": index}
        if offset is not None:
            given["offset"] = flambeau.Size(offset)
        for name, value in given.items():
            object.__setattr__(self, name, value)
