"""Streams and events: the order in which a device does its work, and what waits for what."""

from .. import _C
from .._absent import devices as absent
from .._absent import streams
from ._devices import device as _on
from ._devices import index_of, need

_cuda = _C._cuda


class Stream(streams.Stream):
    """A queue of work of one device: what is launched on it happens in order, beside the work of other streams.

    device: where; the current device by default. priority: lower numbers are served first, as far as the device has
    them. There are 32 streams per device and priority, which are given out in turn.
    """

    made_for = "cuda"

    def __new__(cls, device=None, priority=0, **kwargs):
        return object.__new__(cls)

    def __init__(self, device=None, priority=0, **kwargs):
        need("Stream")
        if kwargs.keys() - {"stream_id", "device_index", "device_type"}:
            raise TypeError(f"Stream: unexpected arguments {', '.join(kwargs)}; it takes device and priority")
        self.device_index = kwargs.get("device_index", None if device is not None else _cuda.current_device())
        if self.device_index is None:
            self.device_index = index_of(device)
        if "stream_id" in kwargs:
            self.cuda_stream = kwargs["stream_id"]
        else:
            self.cuda_stream = _cuda.new_stream(self.device_index, priority)

    @classmethod
    def _of(cls, device_index, handle):
        stream = object.__new__(Stream)
        stream.device_index, stream.cuda_stream = device_index, handle
        return stream

    device_type = 1

    @property
    def device(self):
        """The device whose work it orders."""
        return _C.device("cuda", self.device_index)

    @property
    def stream_id(self):
        """A number that tells the streams of a device apart."""
        return self.cuda_stream

    @property
    def priority(self):
        """Lower numbers are served first."""
        return _cuda.stream_priority(self.cuda_stream)

    @property
    def _as_parameter_(self):
        return self.cuda_stream

    @staticmethod
    def priority_range():
        """(least, greatest) priority of the current device: (0, -5)."""
        need("Stream.priority_range")
        return _cuda.priority_range(_cuda.current_device())

    def query(self):
        """Whether all its work is done."""
        return _cuda.stream_query(self.device_index, self.cuda_stream)

    def synchronize(self):
        """Waits until all its work is done."""
        _cuda.stream_synchronize(self.device_index, self.cuda_stream)

    def is_capturing(self):
        """Whether its work is recorded into a graph instead of done."""
        return _cuda.capturing(self.cuda_stream)

    def wait_event(self, event):
        """Work launched from here on begins when the event has happened."""
        event.wait(self)

    def wait_stream(self, stream):
        """Work launched from here on begins when what the other stream has now is done."""
        self.wait_event(stream.record_event())

    def record_event(self, event=None):
        """Puts an event behind the work launched so far, a new one where none is given, and returns it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __eq__(self, other):
        return isinstance(other, Stream) and (self.device_index, self.cuda_stream) == (other.device_index,
                                                                                       other.cuda_stream)

    def __hash__(self):
        return hash((self.device_index, self.cuda_stream))

    def __enter__(self):
        self._context = stream(self)
        self._context.__enter__()
        return self

    def __exit__(self, *exc):
        self._context.__exit__(*exc)

    def __repr__(self):
        return f"<torch.cuda.Stream device=cuda:{self.device_index} cuda_stream=0x{self.cuda_stream:x}>"


class ExternalStream(Stream):
    """A stream that another library made, by its address; that library keeps it alive."""

    def __init__(self, stream_ptr, device=None, **kwargs):
        need("ExternalStream")
        super().__init__(device_index=index_of(device), stream_id=int(stream_ptr), **kwargs)


class Event(streams.Event):
    """A mark in the work of a stream: others can wait for it, and two of them say how long the work between took.

    enable_timing: whether elapsed_time can be asked. blocking is accepted: waiting never keeps the CPU busy.
    interprocess: whether other processes can wait for it, by `ipc_handle()`; such an event keeps no time. external: in
    work that is recorded, each replay marks it or waits for it, so that streams outside of the graph can follow.
    """

    def __new__(cls, enable_timing=False, blocking=False, interprocess=False, external=False):
        return object.__new__(cls)

    def __init__(self, enable_timing=False, blocking=False, interprocess=False, external=False):
        need("Event")
        if interprocess and enable_timing:
            raise ValueError("Event: an event between processes keeps no time; leave enable_timing or interprocess out")
        self.enable_timing, self.blocking, self.interprocess = enable_timing, blocking, interprocess
        self.external, self.cuda_event, self.device_index = external, 0, None

    def _made_on(self, device_index):
        if not self.cuda_event:
            self.cuda_event = _cuda.ipc_new_event(device_index) if self.interprocess else _cuda.new_event(
                device_index, self.enable_timing)
            self.device_index = device_index
        elif device_index != self.device_index:
            raise RuntimeError(f"Event.record: the event belongs to cuda:{self.device_index} and the stream to "
                               f"cuda:{device_index}; make an event for each device")

    @property
    def device(self):
        """The device of the stream it was recorded on first; None before."""
        return None if self.device_index is None else _C.device("cuda", self.device_index)

    def record(self, stream=None):
        """Puts the mark behind the work that the stream (the current one by default) has now."""
        stream = current_stream() if stream is None else stream
        self._made_on(stream.device_index)
        _cuda.record(self.cuda_event, stream.cuda_stream, stream.device_index, self.external)

    def wait(self, stream=None):
        """Lets a stream (the current one by default) wait for it before it goes on."""
        if self.cuda_event:
            stream = current_stream() if stream is None else stream
            _cuda.stream_wait(stream.device_index, stream.cuda_stream, self.cuda_event, self.external)

    def query(self):
        """Whether the work before it is done; of an event that was never recorded: yes."""
        return not self.cuda_event or _cuda.event_query(self.cuda_event)

    def synchronize(self):
        """Waits until the work before it is done."""
        if self.cuda_event:
            _cuda.event_synchronize(self.cuda_event)

    def elapsed_time(self, end_event):
        """Milliseconds from this event to a later one; both have enable_timing=True and are over."""
        for event in (self, end_event):
            if not (event.enable_timing and event.cuda_event):
                raise RuntimeError("Event.elapsed_time: both events need enable_timing=True and must be recorded")
        return _cuda.event_elapsed(self.cuda_event, end_event.cuda_event)

    def ipc_handle(self):
        """The bytes by which another process finds the event, with `from_ipc_handle`; this one has to keep it."""
        if not self.interprocess:
            raise RuntimeError("Event.ipc_handle: expected an event that was made with interprocess=True")
        self._made_on(current_stream().device_index if self.device_index is None else self.device_index)
        return _cuda.ipc_event(self.device_index, self.cuda_event)

    @classmethod
    def from_ipc_handle(cls, device, handle):
        """The event of another process, on the same device."""
        event = cls(interprocess=True)
        event.device_index = index_of(device)
        event.cuda_event = _cuda.ipc_open_event(event.device_index, handle)
        return event

    def __del__(self):
        if getattr(self, "cuda_event", 0):
            _cuda.drop_event(self.device_index, self.cuda_event, self.enable_timing or self.interprocess)

    def __repr__(self):
        return f"<torch.cuda.Event 0x{self.cuda_event:x}>" if self.cuda_event else "<torch.cuda.Event uninitialized>"


class _DeviceEvent(Event):
    """What flambeau.Event makes for a CUDA device."""

    made_for = "cuda"

    def __init__(self, device=None, *, enable_timing=False, blocking=False, interprocess=False):
        super().__init__(enable_timing, blocking, interprocess)
        if device is not None:
            self._made_on(index_of(device))


class StreamContext:
    """Context in which work goes to a stream, on its device; None changes nothing."""

    def __init__(self, stream):
        need("StreamContext")
        self.stream = stream

    def __enter__(self):
        if self.stream is None:
            return
        self._device = _on(self.stream.device_index)
        self._device.__enter__()
        self._before = _cuda.current_stream(self.stream.device_index)
        _cuda.set_stream(self.stream.device_index, self.stream.cuda_stream)

    def __exit__(self, *_):
        if self.stream is None:
            return
        _cuda.set_stream(self.stream.device_index, self._before)
        self._device.__exit__()


def stream(stream):
    """Context in which work goes to a stream: stream(None) changes nothing."""
    return StreamContext(stream) if _cuda.available() else absent.stream(stream)


def current_stream(device=None):
    """The stream that work of this thread goes to."""
    need("current_stream")
    k = index_of(device)
    return Stream._of(k, _cuda.current_stream(k))


def default_stream(device=None):
    """The stream that work goes to where none is chosen."""
    need("default_stream")
    return Stream._of(index_of(device), 0)


def set_stream(stream):
    """Makes a stream the current one of this thread for its device; None changes nothing."""
    need("set_stream")
    if stream is not None:
        _cuda.set_device(stream.device_index)
        _cuda.set_stream(stream.device_index, stream.cuda_stream)


def get_stream_from_external(data_ptr, device=None):
    """A stream that another library made, by its address."""
    need("get_stream_from_external")
    return ExternalStream(data_ptr, device)
