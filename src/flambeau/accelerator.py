"""Accelerators: there is none, and every query says so."""


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


def _refuse(*args, **kwargs):
    raise RuntimeError("flambeau.accelerator: this build has no accelerator; ask flambeau.accelerator.is_available() "
                       "first")


class device_index:
    """A context on a device of that number; with None nothing changes, anything else is refused."""

    def __init__(self, device, /):
        if device is not None:
            _refuse()

    def __enter__(self):
        """No device to change to."""

    def __exit__(self, *_):
        """No device to go back to."""


current_device_index = current_device_idx = set_device_index = set_device_idx = _refuse
current_stream = set_stream = synchronize = get_device_capability = empty_cache = empty_host_cache = _refuse
get_memory_info = memory_allocated = memory_reserved = max_memory_allocated = max_memory_reserved = _refuse
memory_stats = reset_peak_memory_stats = reset_accumulated_memory_stats = Graph = _refuse
