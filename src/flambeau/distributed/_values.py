"""Values that programs pass to functions of torch.distributed: kinds of reductions, backends, strategies."""

import os
from datetime import timedelta
from enum import Enum, IntEnum

from .._shown import shown

RedOpType = IntEnum("RedOpType", "SUM AVG PRODUCT MIN MAX BAND BOR BXOR PREMUL_SUM", start=0)


class ReduceOp:
    """How elements of several processes become one.

    >>> import flambeau
    >>> flambeau.distributed.ReduceOp.SUM == flambeau.distributed.ReduceOp.RedOpType.SUM
    True
    """

    RedOpType = RedOpType
    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = RedOpType


class Backend(str):
    """The name of a way to exchange tensors, in small letters; ValueError for anything but a string."""

    UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE = "undefined", "gloo", "nccl", "xccl", "ucc", "mpi", "fake"
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    default_device_backend_map = {"cpu": GLOO, "cuda": NCCL, "xpu": XCCL, "mps": GLOO}

    def __new__(cls, name):
        if not isinstance(name, str):
            raise ValueError(f"Backend: expected a name as a string, got {type(name).__name__}")
        return super().__new__(cls, name.lower())


class GroupMember:
    """What stands for the group of all processes, of which there is none, and for not being in a group."""

    WORLD = None
    NON_GROUP_MEMBER = -100


class group:
    """The group of all processes: there is none."""

    WORLD = None


default_pg_timeout = timedelta(minutes=30)
DebugLevel = Enum("DebugLevel", "OFF INFO DETAIL", start=0)
BuiltinCommHookType = Enum("BuiltinCommHookType", "ALLREDUCE FP16_COMPRESS")
StateDictType = Enum("StateDictType", "FULL_STATE_DICT LOCAL_STATE_DICT SHARDED_STATE_DICT")
ShardingStrategy = Enum("ShardingStrategy", "FULL_SHARD SHARD_GRAD_OP NO_SHARD HYBRID_SHARD _HYBRID_SHARD_ZERO2")
BackwardPrefetch = Enum("BackwardPrefetch", "BACKWARD_PRE BACKWARD_POST")
OptimStateKeyType = Enum("OptimStateKeyType", "PARAM_NAME PARAM_ID")
CheckpointImpl = Enum("CheckpointImpl", "REENTRANT NO_REENTRANT")
SplitPoint = Enum("SplitPoint", "BEGINNING END")


def get_debug_level():
    """How much is reported of exchanges: nothing, since there are none."""
    return DebugLevel.OFF


def get_default_backend_for_device(device):
    """The name of the way in which tensors of a device are usually exchanged; ValueError for a device without one.

    >>> import flambeau
    >>> flambeau.distributed.get_default_backend_for_device("cpu")
    'gloo'
    """
    kind = device.partition(":")[0] if isinstance(device, str) else device.type
    if kind not in Backend.default_device_backend_map:
        raise ValueError(f"get_default_backend_for_device: no backend is known for device {shown(kind)}")
    return Backend.default_device_backend_map[kind]


def get_node_local_rank(fallback_rank=None):
    """The number of this process on its machine, as whoever started it has put it into $LOCAL_RANK."""
    rank = os.environ.get("LOCAL_RANK", fallback_rank)
    if rank is None:
        raise RuntimeError("get_node_local_rank: $LOCAL_RANK is not set; give a fallback_rank for a single process")
    return int(rank)
