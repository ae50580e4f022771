"""Names of modules whose parameters are spread over processes, which are not here yet; each says so when used."""

from .._absent import refusals
from ._values import BackwardPrefetch as BackwardPrefetch
from ._values import OptimStateKeyType as OptimStateKeyType
from ._values import ShardingStrategy as ShardingStrategy
from ._values import StateDictType as StateDictType

_REASON = "parameters spread over processes are not available yet; use nn.parallel.DistributedDataParallel"
globals().update(refusals("distributed.fsdp", _REASON, """
    fully_shard(module, mesh, reshard_after_forward, shard_placement_fn, mp_policy, offload_policy,
    ignored_params, dp_mesh_dims) register_fsdp_forward_method(module, method_name) share_comm_ctx(modules)
    FullyShardedDataParallel(module, process_group, sharding_strategy, cpu_offload, auto_wrap_policy,
    backward_prefetch, mixed_precision, ignored_modules, param_init_fn, device_id, sync_module_states,
    forward_prefetch, limit_all_gathers, use_orig_params, ignored_states, device_mesh) FSDPModule(*args,
    **kwargs) UnshardHandle GradientReductionHandle FullStateDictConfig(offload_to_cpu, rank0_only)
    LocalStateDictConfig(offload_to_cpu) ShardedStateDictConfig(offload_to_cpu, _use_dtensor)
    StateDictConfig(offload_to_cpu) StateDictSettings(state_dict_type, state_dict_config,
    optim_state_dict_config) OptimStateDictConfig(offload_to_cpu) FullOptimStateDictConfig(offload_to_cpu,
    rank0_only) LocalOptimStateDictConfig(offload_to_cpu) ShardedOptimStateDictConfig(offload_to_cpu,
    _use_dtensor) MixedPrecision(param_dtype, reduce_dtype, buffer_dtype, keep_low_precision_grads,
    cast_forward_inputs, cast_root_forward_inputs, _module_classes_to_ignore) MixedPrecisionPolicy(param_dtype,
    reduce_dtype, output_dtype, cast_forward_inputs) CPUOffload(offload_params) CPUOffloadPolicy(pin_memory)
    OffloadPolicy DataParallelMeshDims(shard, replicate)
"""))
