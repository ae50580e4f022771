"""What FullyShardedDataParallel is told: dtypes, where parameters wait, and which form a state dict has."""

from dataclasses import dataclass, field

from ... import _C
from ...nn.modules.batchnorm import _BatchNorm
from .._values import StateDictType


@dataclass(frozen=True)
class MixedPrecision:
    """The dtypes of FullyShardedDataParallel: of gathered parameters, of the exchange of gradients, of buffers.

    >>> from flambeau.distributed.fsdp import MixedPrecision
    >>> MixedPrecision(param_dtype=flambeau.bfloat16).cast_root_forward_inputs
    True
    """

    param_dtype: _C.dtype | None = None
    reduce_dtype: _C.dtype | None = None
    buffer_dtype: _C.dtype | None = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: tuple = (_BatchNorm,)


@dataclass
class CPUOffload:
    """Parameters wait in the memory of the CPU, where they are in this build anyway."""

    offload_params: bool = False


@dataclass
class StateDictConfig:
    """Base of the settings of state dicts; offload_to_cpu: tensors are on the CPU, as they are in this build."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """Whole tensors; rank0_only: other ranks get an empty dict."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """Each rank's own parts, as plain tensors."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """DTensors, of which each rank has its part."""

    _use_dtensor: bool = True


@dataclass
class OptimStateDictConfig:
    """Base of the settings of optimizers' state dicts."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Whole tensors; rank0_only: other ranks get an empty dict."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """Each rank's own parts, as plain tensors."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """DTensors, of which each rank has its part."""

    _use_dtensor: bool = True


@dataclass
class StateDictSettings:
    """Which form state dicts have, and its settings."""

    state_dict_type: StateDictType = StateDictType.FULL_STATE_DICT
    state_dict_config: StateDictConfig = field(default_factory=FullStateDictConfig)
    optim_state_dict_config: OptimStateDictConfig = field(default_factory=FullOptimStateDictConfig)


#: form -> (settings of a model's state dict, settings of an optimizer's)
CONFIGS = {StateDictType.FULL_STATE_DICT: (FullStateDictConfig, FullOptimStateDictConfig),
           StateDictType.LOCAL_STATE_DICT: (LocalStateDictConfig, LocalOptimStateDictConfig),
           StateDictType.SHARDED_STATE_DICT: (ShardedStateDictConfig, ShardedOptimStateDictConfig)}
