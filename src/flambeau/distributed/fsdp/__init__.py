"""Parameters spread over data parallel ranks: torch.distributed.fsdp."""

from ..._absent import refusals
from .._values import BackwardPrefetch as BackwardPrefetch
from .._values import OptimStateKeyType as OptimStateKeyType
from .._values import ShardingStrategy as ShardingStrategy
from .._values import StateDictType as StateDictType
from ._fully_shard import FSDPModule as FSDPModule
from ._fully_shard import UnshardHandle as UnshardHandle
from ._fully_shard import fully_shard as fully_shard
from ._fully_shard import register_fsdp_forward_method as register_fsdp_forward_method
from ._fully_shard import share_comm_ctx as share_comm_ctx
from ._policies import CPUOffloadPolicy as CPUOffloadPolicy
from ._policies import MixedPrecisionPolicy as MixedPrecisionPolicy
from ._policies import OffloadPolicy as OffloadPolicy

_REASON = "it is not available yet; use fully_shard"
globals().update(refusals("distributed.fsdp", _REASON, """
    FullyShardedDataParallel(module, process_group, sharding_strategy, cpu_offload, auto_wrap_policy,
    backward_prefetch, mixed_precision, ignored_modules, param_init_fn, device_id, sync_module_states,
    forward_prefetch, limit_all_gathers, use_orig_params, ignored_states, device_mesh)
    GradientReductionHandle FullStateDictConfig(offload_to_cpu, rank0_only)
    LocalStateDictConfig(offload_to_cpu) ShardedStateDictConfig(offload_to_cpu, _use_dtensor)
    StateDictConfig(offload_to_cpu) StateDictSettings(state_dict_type, state_dict_config,
    optim_state_dict_config) OptimStateDictConfig(offload_to_cpu) FullOptimStateDictConfig(offload_to_cpu,
    rank0_only) LocalOptimStateDictConfig(offload_to_cpu) ShardedOptimStateDictConfig(offload_to_cpu,
    _use_dtensor) MixedPrecision(param_dtype, reduce_dtype, buffer_dtype, keep_low_precision_grads,
    cast_forward_inputs, cast_root_forward_inputs, _module_classes_to_ignore)
    CPUOffload(offload_params) DataParallelMeshDims(shard, replicate)
"""))
