"""The CPU as a device, with the functions that every device module has."""

import importlib
from contextlib import nullcontext

from . import _C
from ._absent.streams import Event as Event
from ._absent.streams import Stream as Stream
from ._shown import shown


def is_available():
    """Whether the CPU can be used.

    >>> import flambeau
    >>> flambeau.cpu.is_available(), flambeau.cpu.device_count()
    (True, 1)
    """
    return True


def is_initialized():
    """Whether it is in use."""
    return True


def device_count():
    """How many: one."""
    return 1


def _the_cpu(device):
    if isinstance(device, str) and _C.device(device).type != "cpu":
        raise ValueError(f"flambeau.cpu: expected a CPU device, got {shown(device)}")


def current_device():
    """Its name."""
    return "cpu"


def set_device(device):
    """There is only one: nothing changes."""
    _the_cpu(device)


def synchronize(device=None):
    """Waits for all work: there is none once a call has returned."""
    _the_cpu(device)


def current_stream(device=None):
    """The stream of the CPU."""
    _the_cpu(device)
    return Stream()


def stream(stream):
    """A context of work in that stream."""
    return nullcontext(stream)


StreamContext = stream


def get_capabilities():
    """What the loops use: the instruction set, as {"avx2": True, "avx512": …}."""
    return {"architecture": "x86_64", "avx2": True, "avx512_f": _C.cpu_capability() == "AVX512"}


def set_rng_state(new_state, device="cpu"):
    """The state of the default generator."""
    _the_cpu(device)
    _C.default_generator.set_state(new_state)


def __getattr__(name):
    if name == "amp":
        return importlib.import_module("flambeau.amp._cpu")
    raise AttributeError(f"module {__name__!r} has no attribute {shown(name)}")
