"""Streams, events and accelerators: work on the CPU is done when a call returns, and there is no other device."""

from .. import _C


class AcceleratorError(RuntimeError):
    """An error of a device other than the CPU."""


def _cpu(name, device):
    if device is not None and _C.device(device).type not in ("cpu",):
        raise RuntimeError(f"{name}: this build has no device {device}")


class Stream:
    """A queue of work: on the CPU it is always empty, since every call is complete when it returns.

    >>> import flambeau
    >>> flambeau.Stream(device="cpu").query()
    True
    """

    device_index, stream_id, native_handle = -1, 0, 0
    device_type = "cpu"

    def __init__(self, device=None, *, priority=0):
        _cpu("Stream", device)
        self.device = _C.device("cpu")

    def query(self):
        """Whether all work is done: always."""
        return True

    def synchronize(self):
        """Waits for all work: there is none."""

    def is_capturing(self):
        """Whether work is recorded instead of done: never."""
        return False

    def wait_event(self, event):
        """Work from here on comes after the event: it does anyway."""

    def wait_stream(self, stream):
        """Work from here on comes after that of the other stream: it does anyway."""

    def record_event(self, event=None):
        """The event, recorded."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Nothing changed on the way in."""

    def __repr__(self):
        return "torch.Stream device_type=cpu, device_index=-1, stream_id=0"


class Event:
    """A mark in a stream: passed as soon as it is made."""

    event_id = 0

    def __init__(self, device=None, *, enable_timing=False, blocking=False, interprocess=False):
        _cpu("Event", device)
        if enable_timing or interprocess:
            raise RuntimeError("Event: the CPU has no events with times and none between processes; "
                               "take times with time.perf_counter()")
        self.device = _C.device("cpu")

    def query(self):
        """Whether the work before it is done: always."""
        return True

    def record(self, stream=None):
        """Puts the mark: what stands before it is done."""

    def wait(self, stream=None):
        """Lets a stream wait for it: it has passed."""

    def synchronize(self):
        """Waits for it: it has passed."""

    def elapsed_time(self, end_event):
        """Not available: the CPU has no events with times."""
        raise RuntimeError("elapsed_time: events on the CPU have no times; take them with time.perf_counter()")

    def __repr__(self):
        return "torch.Event device_type=cpu, device_index=-1, event_flag=0, event_id=0"
