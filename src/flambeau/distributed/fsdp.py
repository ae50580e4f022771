"""Names of modules whose parameters are spread over processes, which are not here yet; each says so when used."""

from .._absent import refusals

_REASON = "processes do not exchange tensors yet"
globals().update(refusals("distributed.fsdp", _REASON, """
    fully_shard register_fsdp_forward_method
    FullyShardedDataParallel FSDPModule FullStateDictConfig LocalStateDictConfig ShardedStateDictConfig
    StateDictConfig StateDictSettings StateDictType OptimStateDictConfig FullOptimStateDictConfig
    LocalOptimStateDictConfig ShardedOptimStateDictConfig OptimStateKeyType MixedPrecision MixedPrecisionPolicy
    ShardingStrategy BackwardPrefetch CPUOffload CPUOffloadPolicy OffloadPolicy UnshardHandle
"""))
