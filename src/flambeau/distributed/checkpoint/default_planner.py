"""The planners that are used unless a program has its own: every name once, every chunk of it on one rank."""

import io
from collections import defaultdict
from dataclasses import replace

import flambeau

from ..._shown import shown
from . import _chunks
from ._nested_dict import flatten_state_dict, set_element
from .metadata import BytesStorageMetadata, Metadata, MetadataIndex, TensorStorageMetadata
from .planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)

_MOST_SHOWN = 500  # characters of a message about a plan
_NOWHERE = flambeau.Size((0,))


# --- saving -----------------------------------------------------------------------------------------------------------

class DefaultSavePlanner(SavePlanner):
    """Nested dicts become names with dots; what several ranks hold alike is written by one of them, those that have
    least to write first (`dedup_save_to_lowest_rank`: the lowest).
    """

    def __init__(self, flatten_state_dict=True, flatten_sharded_tensors=True, dedup_replicated_tensors=None,
                 dedup_save_to_lowest_rank=False, enable_plan_caching=False):
        self.flatten_state_dict = flatten_state_dict
        self.dedup_save_to_lowest_rank = dedup_save_to_lowest_rank
        self.mappings = {}

    def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False):
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict, self.is_coordinator = state_dict, is_coordinator

    def create_local_plan(self):
        plan = create_default_local_save_plan(self.state_dict, self.is_coordinator)
        self.plan = replace(plan, planner_data=self.mappings) if self.flatten_state_dict else plan
        return self.plan

    def create_global_plan(self, all_plans):
        plans, metadata = create_default_global_save_plan(_shared_out(all_plans, self.dedup_save_to_lowest_rank))
        if self.flatten_state_dict:
            metadata.planner_data = {name: path for plan in reversed(plans) for name, path in plan.planner_data.items()}
        wrong = [text for name, stored in metadata.state_dict_metadata.items()
                 for text in _chunks.problems(name, stored, len(plans) > 1)]
        if wrong:
            text = "; ".join(wrong)
            raise ValueError(f"save: {text if len(text) < _MOST_SHOWN else text[:_MOST_SHOWN] + '…'}")
        self.global_plan, self.metadata = plans, metadata
        return plans, metadata

    def finish_plan(self, new_plan):
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item):
        return self.transform_object(write_item, self.lookup_object(write_item.index))

    def lookup_object(self, index):
        """The value of a key: this rank's part of a tensor, or another value. For subclasses to change."""
        value = self.state_dict[index.fqn]
        return _chunks.held(index.fqn, value).local if _chunks.is_stored_as_tensor(value) else value

    def transform_object(self, write_item, object):
        """What is written of a value: a BytesIO of what is no tensor. For subclasses to change."""
        if write_item.type != WriteItemType.BYTE_IO:
            return object
        stream = io.BytesIO()
        flambeau.save(object, stream)
        return stream


def create_default_local_save_plan(state_dict, is_coordinator):
    """The SavePlan of one rank: everything that it holds; the coordinator decides who writes it.

    >>> import flambeau
    >>> from flambeau.distributed.checkpoint.default_planner import create_default_local_save_plan
    >>> [item.index.fqn for item in create_default_local_save_plan({"w": flambeau.ones(2), "n": 3}, True).items]
    ['w', 'n']
    """
    items = []
    for name, value in state_dict.items():
        if not _chunks.is_stored_as_tensor(value):
            items.append(WriteItem(MetadataIndex(name), WriteItemType.BYTE_IO))
            continue
        found = _chunks.held(name, value)
        # an empty part begins where another one does, and has nothing to store
        if found is not None and (found.chunk.sizes.numel() or not found.size.numel()):
            data = TensorWriteData(found.chunk, _chunks.properties_of(found), found.size)
            kind = WriteItemType.SHARD if found.is_part else WriteItemType.TENSOR
            items.append(WriteItem(MetadataIndex(name, found.chunk.offsets), kind, tensor_data=data))
    return SavePlan(items)


def _shared_out(plans, to_lowest):
    """The plans with every key in one of them."""
    holders, loads, of_key = defaultdict(list), [0] * len(plans), {}
    for rank, plan in enumerate(plans):
        for item in plan.items:
            holders[item.index].append(rank)
            _check_alike(of_key.setdefault(item.index, item).tensor_data, item)
    for index, ranks in holders.items():
        if len(ranks) == 1:
            loads[ranks[0]] += _bytes_of(of_key[index])
    writer = {}
    for index, ranks in holders.items():
        writer[index] = ranks[0] if to_lowest else min(ranks, key=lambda rank: loads[rank])
        if len(ranks) > 1:
            loads[writer[index]] += _bytes_of(of_key[index])
    return [replace(plan, items=[item for item in plan.items if writer[item.index] == rank])
            for rank, plan in enumerate(plans)]


def _check_alike(known, item):
    """Ranks that store one name mean one tensor."""
    found = item.tensor_data
    sizes = [None if each is None else tuple(each.size) for each in (known, found)]
    if sizes[0] != sizes[1]:
        one, other = ("no tensor" if size is None else f"size {size}" for size in sizes)
        raise ValueError(f"save: {shown(item.index.fqn)} has {one} on one rank and {other.removeprefix('size ')} on "
                         "another")


def _bytes_of(item):
    data = item.tensor_data
    return 1 if data is None else data.chunk.sizes.numel() * data.properties.dtype.itemsize


def create_default_global_save_plan(all_plans, rewrite_index_hints=True):
    """(the plans, the Metadata) of plans in which no key is twice."""
    stored, plans = {}, []
    for plan in all_plans:
        items = []
        for item in plan.items:
            name, data = item.index.fqn, item.tensor_data
            if data is None:
                stored[name] = BytesStorageMetadata()
            else:
                known = stored.setdefault(name, TensorStorageMetadata(data.properties, data.size, []))
                _check_alike(known, item)
                if rewrite_index_hints:
                    item = replace(item, index=MetadataIndex(name, item.index.offset, len(known.chunks)))
                known.chunks.append(data.chunk)
            items.append(item)
        plans.append(replace(plan, items=items))
    return plans, Metadata(stored)


# --- loading ----------------------------------------------------------------------------------------------------------

class DefaultLoadPlanner(LoadPlanner):
    """Fills the tensors of the state dict in place, each from the chunks that meet its own, and replaces other values.

    A name that the checkpoint has not is an error, unless `allow_partial_load`.
    """

    def __init__(self, flatten_state_dict=True, flatten_sharded_tensors=True, allow_partial_load=False):
        self.flatten_state_dict, self.allow_partial_load = flatten_state_dict, allow_partial_load
        self.original_state_dict, self.mappings = {}, {}

    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        self.original_state_dict, self.metadata, self.is_coordinator = state_dict, metadata, is_coordinator
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
            for name, value in state_dict.items():
                if isinstance(value, flambeau.Tensor) and value.is_meta:
                    state_dict[name] = flambeau.empty_like(value, device="cpu")
                    set_element(self.original_state_dict, self.mappings[name], state_dict[name])
        self.state_dict = state_dict

    def create_local_plan(self):
        if self.flatten_state_dict and self.metadata.state_dict_metadata.keys() - self.state_dict.keys():
            old, paths = flatten_state_dict(self.original_state_dict, open_mappings=False)  # names of PyTorch < 2.4
            if any(name in self.metadata.state_dict_metadata for name in old.keys() - self.state_dict.keys()):
                self.state_dict, self.mappings = old, paths
        return create_default_local_load_plan(self.state_dict, self.metadata, not self.allow_partial_load)

    def create_global_plan(self, global_plan):
        return global_plan

    def finish_plan(self, new_plan):
        return new_plan

    def load_bytes(self, read_item, value):
        name = read_item.dest_index.fqn
        loaded = flambeau.load(value, weights_only=False)  # which runs no code either
        if self.flatten_state_dict:
            set_element(self.original_state_dict, self.mappings[name], loaded)
        else:
            self.state_dict[name] = loaded

    def resolve_tensor(self, read_item):
        return self.transform_tensor(read_item, self.lookup_tensor(read_item.dest_index))

    def commit_tensor(self, read_item, tensor):
        """Nothing: the tensor is the state dict's own."""

    def lookup_tensor(self, index):
        """The tensor, on this rank, that a key means. For subclasses to change."""
        return _chunks.held(index.fqn, self.state_dict[index.fqn]).local

    def transform_tensor(self, read_item, tensor):
        """The part of it that an item fills. For subclasses to change."""
        return _chunks.within(tensor, read_item.dest_offsets, read_item.lengths)


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Makes the state dict from the checkpoint: all of it, or what is called, or lies under, one of `keys`."""

    def __init__(self, keys=None, *args, **kwargs):
        self.keys = keys
        super().__init__(*args, **kwargs)

    def _wanted(self, name, path):
        starts = [".".join(map(str, path[:n])) for n in range(1, len(path) + 1)]
        return self.keys is None or name in self.keys or any(start in self.keys for start in starts)

    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        if state_dict:
            raise ValueError(f"{type(self).__name__}: expected an empty state dict, which it fills, got one with "
                             f"{shown(next(iter(state_dict)))}")
        paths = metadata.planner_data or {}
        for name, stored in metadata.state_dict_metadata.items():
            path = paths.get(name, (name,))
            if self._wanted(name, path):
                is_tensor = isinstance(stored, TensorStorageMetadata)
                set_element(state_dict, path, self.make(path, stored) if is_tensor else None)
        super().set_up_planner(state_dict, metadata, is_coordinator)

    def make(self, path, stored):
        """A tensor of the checkpoint, without values."""
        return flambeau.empty(stored.size, dtype=stored.properties.dtype)


def create_default_local_load_plan(state_dict, metadata, strict=True):
    """The LoadPlan of one rank: for every chunk that it has, the stored chunks that meet it."""
    items = []
    for name, value in state_dict.items():
        stored = metadata.state_dict_metadata.get(name)
        if stored is None:
            if strict:
                raise RuntimeError(f"load: the checkpoint has nothing called {shown(name)}; leave it out of the state "
                                   "dict, or load with DefaultLoadPlanner(allow_partial_load=True)")
        elif isinstance(stored, BytesStorageMetadata):
            key = MetadataIndex(name)
            items.append(ReadItem(LoadItemType.BYTE_IO, key, _NOWHERE, key, _NOWHERE, _NOWHERE))
        else:
            items += _tensor_items(name, stored, value)
    return LoadPlan(items)


def _tensor_items(name, stored, value):
    if not _chunks.is_stored_as_tensor(value):
        raise ValueError(f"load: the checkpoint has a tensor of size {tuple(stored.size)} called {shown(name)}, and "
                         f"the state dict {shown(value)}; put a tensor of that size there")
    found = _chunks.held(name, value)
    if found is None:
        return []
    if found.size != stored.size:
        raise ValueError(f"load: {shown(name)} has size {tuple(stored.size)} in the checkpoint and {tuple(found.size)} "
                         "in the state dict")
    return _chunks.create_read_items_for_chunk_list(name, stored, [found.chunk])


def create_default_global_load_plan(all_plans):
    """The plans as they are: ranks read for themselves."""
    return all_plans
