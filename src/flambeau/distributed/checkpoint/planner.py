"""Plans: what a rank writes or reads, item by item, and who makes them."""

import abc
import io
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Any

import flambeau

from .metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties


class WriteItemType(Enum):
    """What is written: a whole tensor, a part of one, or other data."""

    TENSOR = 1
    SHARD = 2
    BYTE_IO = 3


class LoadItemType(Enum):
    """What is read."""

    TENSOR = 1
    BYTE_IO = 2


@dataclass(frozen=True)
class BytesIOWriteData:
    """How long the data are."""

    nbytes: int


@dataclass(frozen=True)
class TensorWriteData:
    """Which chunk, of a tensor of which properties and whole size."""

    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: flambeau.Size


@dataclass(frozen=True)
class WriteItem:
    """One thing to be written: its key, its kind, and for tensors which part it is."""

    index: MetadataIndex
    type: WriteItemType
    bytes_io_data: BytesIOWriteData | None = None
    tensor_data: TensorWriteData | None = None

    def tensor_storage_size(self):
        """The bytes of the whole tensor; None for other data."""
        if self.tensor_data is None:
            return None
        return prod(self.tensor_data.size) * self.tensor_data.properties.dtype.itemsize


@dataclass(frozen=True)
class ReadItem:
    """One box to be read: `lengths` elements from `storage_offsets` of a stored chunk to `dest_offsets` of what a rank
    has.
    """

    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: flambeau.Size
    storage_index: MetadataIndex
    storage_offsets: flambeau.Size
    lengths: flambeau.Size


@dataclass(frozen=True)
class SavePlan:
    """What one rank writes."""

    items: list[WriteItem]
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = True


@dataclass
class LoadPlan:
    """What one rank reads."""

    items: list[ReadItem]
    storage_data: Any = None
    planner_data: Any = None


class SavePlanner(abc.ABC):
    """Decides what is written. Of each save, the methods are called in the order in which they stand here:
    `create_global_plan` on the coordinator alone, the others on all ranks, `resolve_data` for each item.
    """

    @abc.abstractmethod
    def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False):
        """Takes the values."""

    @abc.abstractmethod
    def create_local_plan(self):
        """This rank's SavePlan."""

    @abc.abstractmethod
    def create_global_plan(self, all_plans):
        """(the final plan of each rank, the Metadata) from the plans of all."""

    @abc.abstractmethod
    def finish_plan(self, new_plan):
        """This rank's final plan, which may still be changed."""

    @abc.abstractmethod
    def resolve_data(self, write_item):
        """The tensor, or the BytesIO, of an item. May be called by several threads."""


class LoadPlanner(abc.ABC):
    """Decides what is read, and where it goes. The methods are called in the order in which they stand here."""

    @abc.abstractmethod
    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        """Takes the values that are to be filled, and what the checkpoint has."""

    @abc.abstractmethod
    def create_local_plan(self):
        """This rank's LoadPlan."""

    @abc.abstractmethod
    def create_global_plan(self, global_plan):
        """The final plan of each rank from the plans of all; on the coordinator."""

    @abc.abstractmethod
    def finish_plan(self, central_plan):
        """This rank's final plan, which may still be changed."""

    @abc.abstractmethod
    def load_bytes(self, read_item, value):
        """Takes the data of an item, a BytesIO."""

    def resolve_bytes(self, read_item):
        """A stream for the data of an item, for storages that write into one."""
        raise NotImplementedError(f"{type(self).__name__}.resolve_bytes: this planner takes data by load_bytes; read "
                                  f"{read_item.dest_index.fqn} into an {io.BytesIO.__name__}")

    @abc.abstractmethod
    def resolve_tensor(self, read_item):
        """The tensor, of the item's lengths, that its values are copied to."""

    @abc.abstractmethod
    def commit_tensor(self, read_item, tensor):
        """Called when the values of an item are there."""
