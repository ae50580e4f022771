"""Which engine a program's words for a backend mean, for tensors on which devices."""

import flambeau

from .._shown import shown
from . import _nccl
from ._nccl_engine import NCCLEngine
from ._shared import SharedMemoryEngine
from ._values import Backend, is_nccl_available

#: backends that a program may ask for -> for tensors of which devices
_PLACES = {Backend.GLOO: "cpu", Backend.MPI: "cpu", Backend.NCCL: "cuda"}
elsewhere = [None]  # (rank, size, name) -> an Engine, where ranks lie on hosts that a cluster connects


def backends_of(name, what):
    """{type of device: Backend} that a text asks for: `gloo`, `nccl`, `cpu:gloo,cuda:nccl`, None for what there is.

    ValueError: nothing is known by this name; RuntimeError: it is for devices that are not here.
    """
    text = Backend.UNDEFINED if name is None else Backend(name)
    if text == Backend.UNDEFINED:
        text = Backend("cpu:gloo,cuda:nccl")
    if ":" in text:
        pairs = dict(part.partition(":")[::2] for part in text.split(","))
        found = {kind: _known(each, what) for kind, each in pairs.items()}
        if len(found) > 1 and not is_nccl_available():  # a program for any machine
            found = {kind: each for kind, each in found.items() if each != Backend.NCCL}
    else:
        found = {_PLACES.get(text, "cpu"): _known(text, what)}
    if "cuda" in found:
        _require_gpus(what)
    for kind, each in found.items():
        if _PLACES[each] != kind:
            raise ValueError(f"{what}: backend {shown(str(each))} exchanges tensors on {_PLACES[each]}, not on "
                             f"{shown(kind)}")
    return found


def _require_gpus(what):
    if _nccl.find() is None:
        raise RuntimeError(f"{what}: {_nccl.MISSING}")
    if not flambeau.cuda.is_available():
        raise RuntimeError(f'{what}: backend "nccl" exchanges tensors on GPUs, and this process sees none '
                           '(cuda.is_available() is False); backend="gloo" exchanges tensors on the CPU')


def _known(name, what):
    if name in _PLACES:
        return Backend(name)
    if name in Backend.backend_list:
        raise RuntimeError(f"{what}: backend {shown(str(name))} exchanges tensors of devices that this build has not; "
                           'use backend="gloo", which exchanges tensors on the CPU')
    raise ValueError(f'{what}: no backend is called {shown(str(name))}; use backend="gloo"')


def index_of(pg_options, device_id, name):
    """The number of the GPU that a program names, or None."""
    if pg_options is not None:
        raise NotImplementedError(f"{name}: pg_options are settings of PyTorch's backends; leave them out")
    if device_id is None:
        return None
    device = flambeau.device("cuda", device_id) if isinstance(device_id, int) else flambeau.device(device_id)
    if device.type not in ("cpu", "cuda"):
        raise RuntimeError(f"{name}: device_id {shown(device_id)} is no device of this build; leave it out")
    return device.index if device.type == "cuda" else None


def engines(backends, rank, size, store, timeout, name, index=None):
    """{type of device: the way in which these ranks exchange tensors there}."""
    made = {}
    for kind, backend in backends.items():
        if backend == Backend.NCCL:
            made[kind] = gpus(rank, size, store, timeout, index)
        elif elsewhere[0] is not None:
            made[kind] = elsewhere[0](rank, size, name)
        else:
            made[kind] = SharedMemoryEngine(rank, size, store, timeout)
    return made


def gpus(rank, size, store, timeout, index):
    """The engine for tensors on GPUs."""
    return NCCLEngine(rank, size, store, timeout, flambeau.cuda, _nccl.library(), index=index)
