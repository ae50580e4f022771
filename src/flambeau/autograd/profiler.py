"""The plain profiler: a scope that records operators, and named ranges inside it.

`flambeau.profiler` adds schedules and trace handlers to this one.
"""

from bisect import bisect_left, bisect_right
from contextlib import nullcontext
from dataclasses import dataclass
from functools import wraps

from .. import _C
from .._shown import shown
from ..ops.namespaces import namespace
from ._profiler_events import EventList as EventList
from ._profiler_events import FunctionEvent as FunctionEvent
from ._profiler_events import FunctionEventAvg as FunctionEventAvg
from ._profiler_events import events_of

_SHAPES, _MEMORY, _STACK, _MODULES = 2, 4, 8, 16


@dataclass
class _ExperimentalConfig:
    """Further settings of a profile. Stacks, all threads and times as they are recorded here in any case; counters of
    the processor or a GPU (profiler_metrics, performance_events), and what is of other recorders, are not there.

    >>> import flambeau
    >>> from flambeau.autograd.profiler import _ExperimentalConfig
    >>> with flambeau.profiler.profile(with_stack=True, experimental_config=_ExperimentalConfig(verbose=True)) as prof:
    ...     y = flambeau.ones(1)
    >>> len(prof.events()) > 0
    True
    """

    profiler_metrics: list = ()
    profiler_measure_per_kernel: bool = False
    verbose: bool = False
    performance_events: list = ()
    enable_cuda_sync_events: bool = False
    adjust_profiler_step: bool = False
    disable_external_correlation: bool = False
    profile_all_threads: bool = False
    capture_overload_names: bool = False
    record_python_gc_info: bool = False
    expose_kineto_event_metadata: bool = False
    custom_profiler_config: str = ""
    adjust_timestamps: bool = False
    trace_only: bool = False

    def check(self):
        """NotImplementedError where something is asked for that is not recorded."""
        for name in ("profiler_metrics", "performance_events", "record_python_gc_info", "custom_profiler_config"):
            if getattr(self, name):
                raise NotImplementedError(f"profile: {name} is not recorded; leave it out of the experimental_config")


class profile:
    """Records every operator that runs inside, with its time, and what the options ask for.

    >>> import flambeau
    >>> with flambeau.autograd.profiler.profile(record_shapes=True) as prof:
    ...     y = flambeau.ones(2, 3) + 1
    >>> [(e.name, e.input_shapes[0]) for e in prof.function_events if "add" in e.name]
    [('aten::add', [2, 3])]
    """

    def __init__(self, enabled=True, *, use_cuda=False, use_device=None, record_shapes=False, with_flops=False,
                 profile_memory=False, with_stack=False, with_modules=False, use_kineto=True, use_cpu=True,
                 experimental_config=None, acc_events=False, custom_trace_id_callback=None,
                 post_processing_timeout_s=None, activity_filters=None):
        if use_cuda or use_device not in (None, "cpu"):
            raise NotImplementedError("profile: only the CPU can be profiled here")
        if not use_cpu:
            raise AssertionError("profile: no activity to record with use_cpu=False; the CPU is the one that there is")
        if experimental_config is not None:
            if not isinstance(experimental_config, _ExperimentalConfig):
                raise TypeError("profile: experimental_config must be an _ExperimentalConfig, got "
                                f"{shown(experimental_config)}")
            experimental_config.check()
        for name, value in (("custom_trace_id_callback", custom_trace_id_callback),
                            ("post_processing_timeout_s", post_processing_timeout_s),
                            ("activity_filters", activity_filters)):
            if value is not None:
                raise NotImplementedError(f"profile: {name} is of the Kineto library, which is not used here; "
                                          "leave it out")
        self.acc_events = acc_events
        self.enabled, self.with_flops = enabled, with_flops
        self.options = (_SHAPES * bool(record_shapes or with_flops) | _MEMORY * bool(profile_memory)
                        | _STACK * bool(with_stack) | _MODULES * bool(with_modules))
        self.profile_memory = profile_memory
        self.function_events = None

    def __enter__(self):
        if self.enabled:
            if _C.profile_on():
                raise RuntimeError("profile: another profiler is running already")
            self._origin = _C.profile_clock()
            _C.profile_start(self.options)
        return self

    def __exit__(self, *_):
        if self.enabled:
            self._finish(_C.profile_stop())

    def _finish(self, rows):
        events = events_of(rows, self._origin, self.with_flops)
        kept = self.function_events if self.acc_events and self.function_events else []
        self.function_events = EventList([*kept, *events])
        if not self.profile_memory:
            for event in self.function_events:
                event.cpu_memory_usage = event.self_cpu_memory_usage = 0

    def _events(self):
        if self.function_events is None:
            raise RuntimeError("profile: there are no events before its with block has ended")
        return self.function_events

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0, group_by_overload_name=False):
        """Times, memory and counts by name; `.table()` prints them."""
        return self._events().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def table(self, sort_by=None, row_limit=100, **kwargs):
        """Every single event as text."""
        return self._events().table(sort_by=sort_by, row_limit=row_limit, **kwargs)

    def total_average(self):
        """Everything as one entry."""
        return self._events().total_average()

    def export_chrome_trace(self, path):
        """A JSON file that chrome://tracing and Perfetto open."""
        self._events().export_chrome_trace(path)

    def export_stacks(self, path, metric="self_cpu_time_total"):
        """Stacks with their time, for flame graphs (with_stack=True)."""
        self._events().export_stacks(path, metric)

    @property
    def self_cpu_time_total(self):
        """Microseconds inside recorded events."""
        return self._events().self_cpu_time_total

    def __iter__(self):
        return iter(self._events())

    def __repr__(self):
        return "<unfinished profiler.profile>" if self.function_events is None else repr(self.function_events)

    def __str__(self):
        return "<unfinished profiler.profile>" if self.function_events is None else str(self.function_events)


listeners = []  # functions (name, whether it begins) that are told of ranges


class record_function:
    """A named range of a profile; also a decorator. Without a profiler it costs next to nothing.

    >>> import flambeau
    >>> with flambeau.autograd.profiler.profile() as prof, flambeau.autograd.profiler.record_function("my part"):
    ...     y = flambeau.ones(2)
    >>> prof.function_events[0].name, prof.function_events[0].cpu_children[0].name
    ('my part', 'aten::ones')
    """

    def __init__(self, name, args=None):
        self.name = name if args is None else f"{name}({args})"

    def __enter__(self):
        for tell in listeners:
            tell(self.name, True)
        self._range = _C.profile_begin(self.name)
        return self

    def __exit__(self, *_):
        _C.profile_end(self._range)
        for tell in listeners:
            tell(self.name, False)

    def __call__(self, func):
        @wraps(func)
        def ranged(*args, **kwargs):
            with record_function(self.name):
                return func(*args, **kwargs)
        return ranged


class KinetoStepTracker:
    """How many steps a program has made, of several that count them: the most that one of them has counted.

    >>> from flambeau.autograd.profiler import KinetoStepTracker
    >>> KinetoStepTracker.init_step_count("mine")
    >>> KinetoStepTracker.increment_step("mine") == KinetoStepTracker.current_step()
    True
    >>> KinetoStepTracker.erase_step_count("mine")
    True
    """

    _current_step, _step_dict = 0, {}

    @classmethod
    def init_step_count(cls, requester):
        """A new one that counts, beginning with the steps so far."""
        cls._step_dict[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester):
        """Forgets one that counts; whether it was known."""
        return cls._step_dict.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester):
        """One has made a step: how many there are now."""
        cls._step_dict[requester] = cls._step_dict.get(requester, cls._current_step) + 1
        cls._current_step = max(cls._current_step, *cls._step_dict.values())
        return cls._current_step

    @classmethod
    def current_step(cls):
        """How many steps there are."""
        return cls._current_step


class EnforceUnique:
    """Keys that may come once: `see` raises RuntimeError for one that comes again."""

    def __init__(self):
        self.seen = set()

    def see(self, *key):
        """Takes a key."""
        if key in self.seen:
            raise RuntimeError(f"EnforceUnique: {key} came before")
        self.seen.add(key)


class MemRecordsAcc:
    """Records of memory, (event with start_ns(), …), found by time."""

    def __init__(self, mem_records):
        self._records = sorted(mem_records, key=_begin)

    def in_interval(self, start_us, end_us):
        """Those that begin from start_us on and not after end_us, in microseconds."""
        first = bisect_left(self._records, start_us * 1000, key=_begin)
        yield from self._records[first:bisect_right(self._records, end_us * 1000, key=_begin)]


def _begin(record):
    return record[0].start_ns()


def load_nvprof(path):
    """The events of a file of nvprof's, NVIDIA's older profiler: not available."""
    raise NotImplementedError(f"load_nvprof: files of nvprof ({path}) are not read; record a trace with profile")


def parse_nvprof_trace(path):
    """As load_nvprof: not available."""
    load_nvprof(path)


class _NoSuchTool(nullcontext):
    def __init__(self, enabled=True, record_shapes=False):
        super().__init__()
        if enabled:
            raise NotImplementedError(f"{type(self).__name__}: vendor tools (NVTX, ITT) are not built in; use profile")


class emit_nvtx(_NoSuchTool):
    """Ranges for NVIDIA's tools: not available."""


class emit_itt(_NoSuchTool):
    """Ranges for Intel's tools: not available."""


def _record_function_enter(name, args=None):
    """`ops.profiler._record_function_enter`: begins a range, in programs that traces record; what it gives ends it."""
    return record_function(name, args).__enter__()


def _record_function_exit(handle):
    """Ends the range."""
    handle.__exit__()


for _name, _function in (("_record_function_enter", _record_function_enter),
                         ("_record_function_enter_new", _record_function_enter),
                         ("_record_function_exit", _record_function_exit)):
    namespace("profiler")._register(_name, _function)


def _profiler_enabled():
    """Whether a profiler records in this thread."""
    return _C.profile_on()


def _disable_profiler():
    """Ends whatever profiler records, and gives its events."""
    if not _C.profile_on():
        raise RuntimeError("_disable_profiler: no profiler is running")
    return EventList(events_of(_C.profile_stop(), _C.profile_clock(), False))


def kineto_available():
    """Whether the Kineto library records: it does not, the profiler is this library's own."""
    return False
