"""NVIDIA's library for exchange between GPUs: whether it is there. `flambeau.distributed` uses it (backend "nccl")."""

import ctypes

from .. import _C
from .._absent import refusals
from .._libraries import NCCL_PACKAGES, in_packages

SUM = 0


def _path():
    return next(in_packages(NCCL_PACKAGES, r"libnccl\.so\.2"), None)


def version():
    """(major, minor, patch) of the library. RuntimeError where there is none."""
    path = _path()
    if path is None:
        raise RuntimeError(f"nccl.version: there is no NCCL here: pip install {NCCL_PACKAGES[0]}")
    number = ctypes.c_int()
    ctypes.CDLL(path).ncclGetVersion(ctypes.byref(number))
    return number.value // 10000, number.value // 100 % 100, number.value % 100


def is_available(tensors):
    """Whether the library could exchange these tensors: dense, contiguous, each on another GPU."""
    places = [t.device for t in tensors]
    return (_path() is not None and all(t.is_cuda and t.layout is _C.strided and t.is_contiguous() for t in tensors)
            and len(set(places)) == len(places))


globals().update(refusals("cuda.nccl", "flambeau.distributed exchanges tensors by NCCL, a process for each GPU", """
    unique_id() init_rank(num_ranks, uid, rank) all_reduce(inputs, outputs=None, op=0, streams=None, comms=None)
    reduce(inputs, output=None, root=0, op=0, streams=None, comms=None, *, outputs=None)
    broadcast(inputs, root=0, streams=None, comms=None) all_gather(inputs, outputs, streams=None, comms=None)
    reduce_scatter(inputs, outputs, op=0, streams=None, comms=None)
"""))
