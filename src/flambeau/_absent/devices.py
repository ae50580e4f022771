"""What a module of devices answers where there are none: cuda, mps, mtia and xpu have the same functions."""

import contextlib

from .. import _C
from .._shown import shown


def is_available():
    """Whether such a device can be used.

    >>> import flambeau
    >>> flambeau.cuda.is_available(), flambeau.xpu.is_available()
    (False, False)
    """
    return False


def is_initialized():
    """Whether such devices are in use."""
    return False


def device_count():
    """How many such devices there are."""
    return 0


def is_bf16_supported(including_emulation=True):
    """Whether the device computes in bfloat16."""
    return False


def is_tf32_supported():
    """Whether the device multiplies in TF32."""
    return False


def is_current_stream_capturing():
    """Whether work is being recorded: never."""
    return False


def get_arch_list():
    """The kinds of devices that were compiled for: none."""
    return []


get_rng_state_all = get_arch_list


def _none(what):
    raise RuntimeError(f"{what}: there is no such device; use device 'cpu', and ask is_available() first")


def set_rng_state_all(new_states):
    """Nothing, for the list of no states that get_rng_state_all gives."""
    if len(new_states):
        _none(f"set_rng_state_all of {len(new_states)} states")


def manual_seed(seed):
    """Seeds the device's generator: there is none, so nothing happens."""
    int(seed)


manual_seed_all = manual_seed


def seed():
    """Nothing: there is no device whose generator it could seed."""


seed_all = seed


def empty_cache():
    """Gives unused device memory back: there is none."""


def ipc_collect():
    """Nothing: no memory of a device is shared."""


def memory_allocated(device=None):
    """Bytes in use on the device: none."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def memory_stats(device=None):
    """What the device's allocator holds: nothing."""
    return {}


def reset_peak_memory_stats(device=None):
    """Nothing: there is no device whose memory is counted."""


reset_accumulated_memory_stats = reset_peak_memory_stats


class device(contextlib.nullcontext):
    """Context in which a device is the current one: device(None) and device(-1) stay where they are."""

    def __init__(self, device):
        super().__init__()
        if device is not None and device != -1:
            _none(f"device({shown(device)})")


def device_of(obj):
    """Context in which the device of a tensor is the current one: a tensor of the CPU changes nothing."""
    return device(None if not isinstance(obj, _C.Tensor) or obj.device.type == "cpu" else obj.device)


def stream(stream):
    """Context in which work goes to a stream: stream(None) changes nothing, and there are no others."""
    return contextlib.nullcontext() if stream is None else _none(f"stream({shown(stream)})")
