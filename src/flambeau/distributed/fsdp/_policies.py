"""What fully_shard is told about dtypes and about where parameters wait."""

from dataclasses import dataclass

from ... import _C


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The dtypes of fully_shard: of gathered parameters, of the exchange of gradients, of outputs.

    param_dtype: what parameters (and, with cast_forward_inputs, floating-point inputs) are computed in.
    reduce_dtype: what gradients are added up in; without it the dtype of the computation.

    >>> from flambeau.distributed.fsdp import MixedPrecisionPolicy
    >>> MixedPrecisionPolicy(param_dtype=flambeau.bfloat16, reduce_dtype=flambeau.float32).cast_forward_inputs
    True
    """

    param_dtype: _C.dtype | None = None
    reduce_dtype: _C.dtype | None = None
    output_dtype: _C.dtype | None = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Parameters stay where they are."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parameters wait in the memory of the CPU, where they are in this build anyway; pin_memory has no effect there."""

    pin_memory: bool = True
