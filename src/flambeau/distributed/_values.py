"""Values that programs pass to functions of torch.distributed: kinds of reductions, backends, strategies."""

import os
from datetime import timedelta
from enum import Enum
from importlib.util import find_spec
from typing import NewType

import flambeau

from .. import _ranks
from .._shown import NamedNumber, shown
from . import _nccl

RedOpType = NamedNumber("RedOpType", "SUM AVG PRODUCT MIN MAX BAND BOR BXOR PREMUL_SUM", start=0)


class ReduceOp:
    """How elements of several processes become one.

    >>> import flambeau
    >>> flambeau.distributed.ReduceOp.SUM == flambeau.distributed.ReduceOp.RedOpType.SUM
    True
    """

    RedOpType = RedOpType
    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = RedOpType

    def __init__(self, op, factor=None):
        self.op, self.factor = RedOpType(op), factor

    def __eq__(self, other):
        return self.op == getattr(other, "op", other) and self.factor == getattr(other, "factor", None)

    def __hash__(self):
        return hash(self.op)

    def __repr__(self):
        return f"ReduceOp({self.op!r})" if self.factor is None else f"ReduceOp({self.op!r}, {self.factor})"


class Backend(str):
    """The name of a way to exchange tensors, in small letters; ValueError for anything but a string."""

    UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE = "undefined", "gloo", "nccl", "xccl", "ucc", "mpi", "fake"
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    default_device_backend_map = {"cpu": GLOO, "cuda": NCCL, "xpu": XCCL, "mps": GLOO}

    def __new__(cls, name):
        if not isinstance(name, str):
            raise ValueError(f"Backend: expected a name as a string, got {type(name).__name__}")
        return super().__new__(cls, name.lower())


class BackendConfig:
    """Which backend exchanges the tensors of which kind of device, from a text such as `gloo` or `cpu:gloo,cuda:nccl`.

    >>> import flambeau.distributed as dist
    >>> dist.BackendConfig(dist.Backend("cpu:gloo,cuda:nccl")).get_device_backend_map()
    {'cpu': 'gloo', 'cuda': 'nccl'}
    """

    def __init__(self, backend):
        self.device_backend_map = _device_map(str(backend))

    def __repr__(self):
        return ",".join(f"{kind}:{name}" for kind, name in self.device_backend_map.items())

    def get_device_backend_map(self):
        """{kind of device: Backend}."""
        return self.device_backend_map


def _device_map(text):
    if ":" in text:
        pairs = [part.partition(":")[::2] for part in text.lower().split(",")]
        if len(dict(pairs)) < len(pairs):
            raise ValueError(f"BackendConfig: {shown(text)} names two backends for one kind of device")
        return {kind.strip(): Backend(name.strip()) for kind, name in pairs}
    if text == Backend.UNDEFINED:
        return {kind: Backend(name) for kind, name in Backend.default_device_backend_map.items()
                if kind == "cpu" or (kind == "cuda" and is_nccl_available())}
    return {kind: Backend(text) for kind in (["cuda"] if text == Backend.NCCL else ["cpu", "cuda"])}


GroupName = NewType("GroupName", str)


class _World(type):
    @property
    def WORLD(cls):
        """The group of all processes, or None."""
        return _ranks.world


class GroupMember(metaclass=_World):
    """WORLD: the group of all processes, or None; and what stands for not being in a group."""

    NON_GROUP_MEMBER = -100


class group(metaclass=_World):
    """WORLD: the group of all processes, or None where there is none."""


default_pg_timeout = timedelta(minutes=30)
DebugLevel = Enum("DebugLevel", "OFF INFO DETAIL", start=0)
BuiltinCommHookType = Enum("BuiltinCommHookType", "ALLREDUCE FP16_COMPRESS")
StateDictType = Enum("StateDictType", "FULL_STATE_DICT LOCAL_STATE_DICT SHARDED_STATE_DICT")
ShardingStrategy = Enum("ShardingStrategy", "FULL_SHARD SHARD_GRAD_OP NO_SHARD HYBRID_SHARD _HYBRID_SHARD_ZERO2")
BackwardPrefetch = Enum("BackwardPrefetch", "BACKWARD_PRE BACKWARD_POST")
OptimStateKeyType = Enum("OptimStateKeyType", "PARAM_NAME PARAM_ID")
CheckpointImpl = Enum("CheckpointImpl", "REENTRANT NO_REENTRANT")
SplitPoint = Enum("SplitPoint", "BEGINNING END")


def is_available():
    """Whether processes can exchange tensors: yes."""
    return True


def is_gloo_available():
    """Whether tensors on the CPU can be exchanged: "gloo" in a program selects the engine for that."""
    return True


def is_nccl_available():
    """Whether tensors of GPUs can be exchanged: there are some, and NVIDIA's library for it is installed."""
    return flambeau.cuda.is_available() and _nccl.find() is not None


def is_ucc_available():
    """Whether UCC can be used: not in this build."""
    return False


is_xccl_available = is_ucc_available


def is_mpi_available():
    """Whether processes that mpiexec has started can exchange tensors over MPI: mpi4py is installed."""
    return find_spec("mpi4py") is not None


def is_backend_available(backend):
    """Whether this backend can be used.

    >>> import flambeau.distributed as dist
    >>> dist.is_backend_available("gloo"), dist.is_backend_available("nccl")
    (True, False)
    """
    there = {Backend.GLOO: is_gloo_available, Backend.MPI: is_mpi_available, Backend.NCCL: is_nccl_available}
    return backend.lower() in there and there[backend.lower()]()


def is_torchelastic_launched():
    """Whether the launcher has started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def supports_complex(reduceOp):
    """Whether complex numbers can be reduced in this way."""
    return getattr(reduceOp, "op", reduceOp) in (RedOpType.SUM, RedOpType.AVG, RedOpType.PRODUCT, RedOpType.PREMUL_SUM)


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
