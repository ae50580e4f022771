"""What a place for checkpoints must be able to do: write the items of plans, and read them."""

import abc
from dataclasses import dataclass
from typing import Any

from .metadata import MetadataIndex


@dataclass(frozen=True)
class WriteResult:
    """Where an item has gone: its key, its bytes, and what the storage needs to find it again."""

    index: MetadataIndex
    size_in_bytes: int
    storage_data: Any


class StorageWriter(abc.ABC):
    """Writes checkpoints. Of each save, the methods are called in the order in which they stand here."""

    @abc.abstractmethod
    def reset(self, checkpoint_id=None):
        """A new save begins, at this place or the one before."""

    @abc.abstractmethod
    def set_up_storage_writer(self, is_coordinator, *args, **kwargs):
        """Says whether this rank is the coordinator; `rank` and `use_collectives` come as keywords."""

    @abc.abstractmethod
    def prepare_local_plan(self, plan):
        """The rank's plan, with what the storage adds."""

    @abc.abstractmethod
    def prepare_global_plan(self, plans):
        """The plans of all ranks, with what the storage adds; on the coordinator."""

    @abc.abstractmethod
    def write_data(self, plan, planner):
        """Writes the items of a plan; a future of their WriteResults."""

    @abc.abstractmethod
    def finish(self, metadata, results):
        """Writes the metadata, with which the checkpoint is there; on the coordinator, when all have written."""

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        """Whether this kind of storage has such places."""

    def storage_meta(self):
        """The StorageMeta of this save; None where there is none."""
        return


class StorageReader(abc.ABC):
    """Reads checkpoints. Of each load, the methods are called in the order in which they stand here."""

    @abc.abstractmethod
    def reset(self, checkpoint_id=None):
        """A new load begins, of this place or the one before."""

    @abc.abstractmethod
    def read_metadata(self, *args, **kwargs):
        """The Metadata."""

    @abc.abstractmethod
    def set_up_storage_reader(self, metadata, is_coordinator, *args, **kwargs):
        """Takes the metadata, and whether this rank is the coordinator."""

    @abc.abstractmethod
    def prepare_local_plan(self, plan):
        """The rank's plan, with what the storage adds."""

    @abc.abstractmethod
    def prepare_global_plan(self, plans):
        """The plans of all ranks; on the coordinator."""

    @abc.abstractmethod
    def read_data(self, plan, planner):
        """Reads the items of a plan and gives them to the planner; a future of None."""

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        """Whether this kind of storage has such places."""
