"""Names of modules whose parameters are spread over processes, which are not here yet; each says so when used."""

from .._absent import refusal, refused_class

_REASON = "processes do not exchange tensors yet"
globals().update({name: refusal(f"distributed.fsdp.{name}", _REASON) for name in """
    fully_shard register_fsdp_forward_method
""".split()})
globals().update({name: refused_class(f"distributed.fsdp.{name}", _REASON) for name in """
    FullyShardedDataParallel FSDPModule FullStateDictConfig LocalStateDictConfig ShardedStateDictConfig
    StateDictConfig StateDictSettings StateDictType OptimStateDictConfig FullOptimStateDictConfig
    LocalOptimStateDictConfig ShardedOptimStateDictConfig OptimStateKeyType MixedPrecision MixedPrecisionPolicy
    ShardingStrategy BackwardPrefetch CPUOffload CPUOffloadPolicy OffloadPolicy UnshardHandle
""".split()})
