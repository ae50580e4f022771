"""Streams and events of whichever device: those of the CPU stand here, since its work is done when a call returns;
those of other devices are subclasses, whose `made_for` names the kind of device."""

from .. import _C


class AcceleratorError(RuntimeError):
    """An error of a device other than the CPU."""


def _kind(device):
    """The kind of device that is meant: an accelerator, if there is one, where nothing is said."""
    if device is None:
        return "cuda" if _C._cuda.available() else "cpu"
    return "cuda" if isinstance(device, int) else _C.device(device).type


def _class_for(base, device):
    """The subclass that is made for a device of that kind."""
    kind, left = _kind(device), [base]
    for found in left:
        if found.__dict__.get("made_for") == kind:
            return found
        left += found.__subclasses__()
    raise RuntimeError(f"{base.__name__}: this build has no device {device}")


class Stream:
    """A queue of work of a device, by default of the accelerator: on the CPU it is always empty, since every call is
    complete when it returns. On CUDA it is a `cuda.Stream`.

    >>> import flambeau
    >>> flambeau.Stream(device="cpu").query()
    True
    """

    made_for = "cpu"
    device_index, stream_id, native_handle = -1, 0, 0
    device_type, device = 0, _C.device("cpu")

    def __new__(cls, device=None, *, priority=0):
        return object.__new__(_class_for(Stream, device) if cls is Stream else cls)

    def __init__(self, device=None, *, priority=0):
        pass

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
    """A mark in a stream of a device, by default of the accelerator: on the CPU it is passed as soon as it is made. On
    CUDA it is a `cuda.Event`."""

    made_for = "cpu"
    event_id, device = 0, _C.device("cpu")

    def __new__(cls, device=None, *, enable_timing=False, blocking=False, interprocess=False):
        return object.__new__(_class_for(Event, device) if cls is Event else cls)

    def __init__(self, device=None, *, enable_timing=False, blocking=False, interprocess=False):
        if enable_timing or interprocess:
            raise RuntimeError("Event: the CPU has no events with times and none between processes; "
                               "take times with time.perf_counter()")

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
