"""Accelerators: there is none, and every query says so."""

from ._absent import refusals

_REASON = "this build has no accelerator; ask accelerator.is_available() first"


def is_available():
    """Whether there is an accelerator.

    >>> import flambeau
    >>> flambeau.accelerator.is_available()
    False
    """
    return False


def device_count():
    """How many accelerators there are."""
    return 0


def current_accelerator(check_available=False):
    """The kind of accelerator, as a device: None."""
    return None


class device_index:
    """A context on a device of that number; with None nothing changes, anything else is refused."""

    def __init__(self, device, /):
        if device is not None:
            raise NotImplementedError(f"accelerator.device_index: {_REASON}")

    def __enter__(self):
        """No device to change to."""

    def __exit__(self, *_):
        """No device to go back to."""


globals().update(refusals("accelerator", _REASON, """
    current_device_index current_device_idx set_device_index(device) set_device_idx(device)
    current_stream(device) set_stream(stream) synchronize(device) get_device_capability(device) empty_cache
    empty_host_cache get_memory_info(device_index) memory_allocated(device_index) memory_reserved(device_index)
    max_memory_allocated(device_index) max_memory_reserved(device_index) memory_stats(device_index)
    reset_peak_memory_stats(device_index) reset_accumulated_memory_stats(device_index) Graph(keep_graph, pool,
    capture_error_mode)
"""))
