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
from ._settings import CPUOffload as CPUOffload
from ._settings import FullOptimStateDictConfig as FullOptimStateDictConfig
from ._settings import FullStateDictConfig as FullStateDictConfig
from ._settings import LocalOptimStateDictConfig as LocalOptimStateDictConfig
from ._settings import LocalStateDictConfig as LocalStateDictConfig
from ._settings import MixedPrecision as MixedPrecision
from ._settings import OptimStateDictConfig as OptimStateDictConfig
from ._settings import ShardedOptimStateDictConfig as ShardedOptimStateDictConfig
from ._settings import ShardedStateDictConfig as ShardedStateDictConfig
from ._settings import StateDictConfig as StateDictConfig
from ._settings import StateDictSettings as StateDictSettings
from .fully_sharded_data_parallel import FullyShardedDataParallel as FullyShardedDataParallel

_REASON = "it is not available yet; a DeviceMesh of two dimensions says along which to cut"
globals().update(refusals("distributed.fsdp", _REASON, """
    DataParallelMeshDims(shard, replicate) GradientReductionHandle
"""))
