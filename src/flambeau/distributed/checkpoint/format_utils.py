"""From a checkpoint's folder to one file of `save`, and back."""

from pathlib import Path

import flambeau

from ..._shown import shown
from ...futures import Future
from .. import _collectives as collectives
from .. import _groups as groups
from . import _chunks
from ._nested_dict import flatten_state_dict
from .default_planner import DefaultLoadPlanner
from .default_planner import _EmptyStateDictLoadPlanner as _EmptyStateDictLoadPlanner
from .filesystem import FileSystemReader, FileSystemWriter
from .metadata import Metadata, TensorProperties, TensorStorageMetadata
from .planner import LoadItemType
from .state_dict_loader import _load_state_dict as _load_state_dict
from .state_dict_saver import _save_state_dict
from .storage import StorageReader


def dcp_to_torch_save(dcp_checkpoint_dir, torch_save_path):
    """Writes what a checkpoint's folder has into one file, in one process.

    >>> import flambeau, os, tempfile
    >>> import flambeau.distributed.checkpoint as dcp
    >>> from flambeau.distributed.checkpoint.format_utils import dcp_to_torch_save
    >>> with tempfile.TemporaryDirectory() as place:
    ...     _ = dcp.save({"w": flambeau.ones(2), "step": 7}, checkpoint_id=place)
    ...     dcp_to_torch_save(place, os.path.join(place, "all.pt"))
    ...     flambeau.load(os.path.join(place, "all.pt"))
    {'w': tensor([1., 1.]), 'step': 7}
    """
    state_dict = {}
    _load_state_dict(state_dict, FileSystemReader(dcp_checkpoint_dir), planner=_EmptyStateDictLoadPlanner(),
                     no_dist=True)
    flambeau.save(state_dict, torch_save_path)


def torch_save_to_dcp(torch_save_path, dcp_checkpoint_dir):
    """Writes what a file of `save` has into a checkpoint's folder, in one process."""
    state_dict = flambeau.load(torch_save_path, weights_only=False)
    _save_state_dict(state_dict, FileSystemWriter(dcp_checkpoint_dir), no_dist=True)


class BroadcastingTorchSaveReader(StorageReader):
    """Reads a file of `save` on the coordinator alone, which sends each tensor to all ranks; these keep their part.

    To be used with DynamicMetaLoadPlanner. Reads tensors only.
    """

    def __init__(self, checkpoint_id=None, coordinator_rank=0):
        self.checkpoint_id, self.coordinator_rank = checkpoint_id, coordinator_rank

    def reset(self, checkpoint_id=None):
        self.checkpoint_id = checkpoint_id or self.checkpoint_id

    def read_metadata(self, *args, **kwargs):
        """Nothing: the planner makes the metadata from the state dict."""
        return Metadata({}, storage_data={})

    def set_up_storage_reader(self, metadata, is_coordinator, *args, **kwargs):
        self.is_coordinator = is_coordinator
        if self.checkpoint_id is None:
            raise ValueError("BroadcastingTorchSaveReader: give checkpoint_id, the path of the file")

    def prepare_local_plan(self, plan):
        return plan

    def prepare_global_plan(self, plans):
        return plans

    def read_data(self, plan, planner):
        loaded = flatten_state_dict(flambeau.load(self.checkpoint_id))[0] if self.is_coordinator else {}
        stored = planner.metadata.state_dict_metadata
        for name in dict.fromkeys(item.storage_index.fqn for item in plan.items if item.type == LoadItemType.TENSOR):
            whole = self._whole(name, stored[name], loaded)
            for item in plan.items:
                if item.storage_index.fqn == name:
                    target = planner.resolve_tensor(item)
                    target.detach().copy_(_chunks.within(whole, item.storage_offsets, item.lengths))
                    planner.commit_tensor(item, target)
        future = Future()
        future.set_result(None)
        return future

    def _whole(self, name, stored, loaded):
        if not self.is_coordinator:
            whole = flambeau.empty(stored.size, dtype=stored.properties.dtype)
        elif name not in loaded:
            raise RuntimeError(f"load: {self.checkpoint_id} has nothing called {shown(name)}")
        else:
            whole = loaded[name].detach().to(stored.properties.dtype).contiguous()
        if groups.is_initialized():
            collectives.broadcast(whole, src=self.coordinator_rank)
        return whole

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return Path(checkpoint_id).is_file()


class DynamicMetaLoadPlanner(DefaultLoadPlanner):
    """Plans from the state dict alone: every tensor is taken to be stored whole."""

    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        super().set_up_planner(state_dict, metadata, is_coordinator)
        stored = {}
        for name, value in self.state_dict.items():
            if not _chunks.is_stored_as_tensor(value):
                raise RuntimeError(f"{type(self).__name__}: {shown(name)} is {shown(value)}, expected tensors only")
            whole = _chunks.whole(value)
            stored[name] = TensorStorageMetadata(TensorProperties(value.dtype), whole.sizes, [whole])
        self.metadata = Metadata(stored, storage_data={})
