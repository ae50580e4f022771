"""CUDA devices: this build has none, and `is_available()` says so."""

import importlib

from . import _C
from ._shown import shown
from ._tensor.types import CUDA_TYPES

_MESSAGE = "flambeau was built without CUDA: use device 'cpu' (cuda.is_available() tells)"


def is_available():
    """Whether a CUDA device can be used.

    >>> import flambeau
    >>> flambeau.cuda.is_available()
    False
    """
    return False


def is_initialized():
    """Whether CUDA is in use."""
    return False


def device_count():
    """How many CUDA devices there are."""
    return 0


def is_bf16_supported(including_emulation=True):
    """Whether the device computes in bfloat16."""
    return False


def manual_seed(seed):
    """Seeds the device's generator: there is none, so nothing happens."""
    int(seed)


manual_seed_all = manual_seed


def empty_cache():
    """Gives unused device memory back: there is none."""


def _refuse(*args, **kwargs):
    raise RuntimeError(_MESSAGE)


current_device = set_device = synchronize = get_device_name = get_device_properties = get_device_capability = _refuse
memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = lambda device=None: 0
reset_peak_memory_stats = lambda device=None: None
init = Stream = Event = CUDAGraph = _refuse
default_generators = ()
OutOfMemoryError = _C.OutOfMemoryError
globals().update(CUDA_TYPES)


def __getattr__(name):
    if name == "amp":
        return importlib.import_module("flambeau.amp._cuda")
    raise AttributeError(f"module {__name__!r} has no attribute {shown(name)}")
