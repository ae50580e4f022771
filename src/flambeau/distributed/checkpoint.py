"""Names of checkpoints that several processes write, which are not here yet; each says so when used."""

from .._absent import refusals

_REASON = ("checkpoints of several processes are not available yet; let rank 0 save and load with flambeau.save and "
           "flambeau.load, and broadcast what it has loaded")
globals().update(refusals("distributed.checkpoint", _REASON, """
    load(state_dict, checkpoint_id, storage_reader, planner, process_group, no_dist) save(state_dict,
    checkpoint_id, storage_writer, planner, process_group, no_dist, use_collectives) async_save(state_dict,
    checkpoint_id, storage_writer, planner, process_group, async_checkpointer_type, async_stager, no_dist,
    use_collectives) load_state_dict(state_dict, storage_reader, process_group, coordinator_rank, no_dist,
    planner) save_state_dict(state_dict, storage_writer, process_group, coordinator_rank, no_dist, planner)
    load_sharded_optimizer_state_dict(model_state_dict, optimizer_key, storage_reader, planner)
    FileSystemReader(path, _extension_registry) FileSystemWriter(path, single_file_per_rank, sync_files,
    thread_count, per_thread_copy_ahead, cache_staged_state_dict, overwrite, _extensions, serialization_format)
    StorageReader StorageWriter LoadPlan(items, storage_data, planner_data) LoadPlanner SavePlan(items,
    storage_data, planner_data, usable) SavePlanner DefaultLoadPlanner(flatten_state_dict,
    flatten_sharded_tensors, allow_partial_load) DefaultSavePlanner(flatten_state_dict, flatten_sharded_tensors,
    dedup_replicated_tensors, dedup_save_to_lowest_rank, enable_plan_caching) Metadata(state_dict_metadata,
    planner_data, storage_data, storage_meta, version) BytesStorageMetadata TensorStorageMetadata(properties,
    size, chunks) ChunkStorageMetadata(offsets, sizes) ReadItem(type, dest_index, dest_offsets, storage_index,
    storage_offsets, lengths) WriteItem(index, type, bytes_io_data, tensor_data) FsspecReader FsspecWriter(path,
    single_file_per_rank, sync_files, thread_count, per_thread_copy_ahead, cache_staged_state_dict, overwrite,
    _extensions, serialization_format) HuggingFaceStorageReader(path, thread_count)
    HuggingFaceStorageWriter(path, fqn_to_index_mapping, thread_count, save_distributed, enable_consolidation,
    thread_count_consolidation) QuantizedHuggingFaceStorageReader(path, thread_count, target_dtype, block_size)
    CheckpointableTensor
    StateDictOptions(full_state_dict, cpu_offload, ignore_frozen_params, keep_submodule_prefixes, strict,
    broadcast_from_rank0, flatten_optimizer_state_dict, dsd_fqn_modifiers) get_model_state_dict(model,
    submodules, options) get_optimizer_state_dict(model, optimizers, submodules, options)
    set_model_state_dict(model, model_state_dict, options) set_optimizer_state_dict(model, optimizers,
    optim_state_dict, options) get_state_dict(model, optimizers, submodules, options) set_state_dict(model,
    optimizers, model_state_dict, optim_state_dict, options)
"""))


class CheckpointException(BaseException):
    """What went wrong in several processes: never raised, since nothing is written by several."""

    def __init__(self, msg, failures):
        super().__init__(msg, failures)
        self.failures = failures
