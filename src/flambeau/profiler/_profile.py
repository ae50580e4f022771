"""The profiler of loops: a schedule gives each step an action, and each finished recording goes to a handler."""

import gzip
import json
import os
import socket
import time
import warnings
from enum import Enum

from .. import _C
from .._shown import shown
from ..autograd._profiler_events import EventList, chrome_trace
from ..autograd.profiler import KinetoStepTracker, record_function
from ..autograd.profiler import profile as _Recording
from ._execution_trace import ExecutionTraceObserver


class ProfilerActivity(Enum):
    """What can be recorded."""

    CPU = 0
    CUDA = 1
    XPU = 2
    MTIA = 3
    HPU = 4
    PrivateUse1 = 5


class DeviceType(Enum):
    """Where an event ran."""

    CPU = 0
    CUDA = 1


class ProfilerAction(Enum):
    """What happens during a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def supported_activities():
    """The activities of this machine: the CPU's.

    >>> import flambeau
    >>> flambeau.profiler.supported_activities()
    {<ProfilerActivity.CPU: 0>}
    """
    return {ProfilerActivity.CPU}


def _recordable(activities):
    """Those of the activities that can be recorded here; a warning names the others."""
    wanted = supported_activities() if activities is None else list(activities)
    for activity in wanted:
        if not isinstance(activity, ProfilerActivity):
            raise TypeError(f"profile: activities are members of ProfilerActivity, got {shown(activity)}")
    left_out = [a.name for a in wanted if a not in supported_activities()]
    if left_out:
        warnings.warn(f"profile: {', '.join(left_out)} cannot be recorded in this build; only CPU can", stacklevel=3)
    return supported_activities().intersection(wanted)


def kineto_available():
    """Whether the Kineto library does the recording: no, the profiler's own recorder does, and writes traces too."""
    return False


def schedule(*, wait, warmup, active, repeat=0, skip_first=0, skip_first_wait=0):
    """A function step -> action: skip `skip_first` steps, then cycles of `wait`, `warmup` and `active` ones.

    `repeat` 0: as many cycles as there are steps. With `skip_first_wait` the first cycle does not wait.

    >>> import flambeau
    >>> plan = flambeau.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
    >>> [plan(k).name for k in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError("schedule: active must be at least 1, and none of the other numbers negative")

    def action(step):
        if step < 0:
            raise AssertionError(f"profiler.schedule: step must not be negative, got {step}")
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait:
            step += wait
        cycle = wait + warmup + active
        if repeat and step // cycle >= repeat:
            return ProfilerAction.NONE
        at = step % cycle
        if at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if at < cycle - 1 else ProfilerAction.RECORD_AND_SAVE
    return action


def _default_schedule_fn(_):
    return ProfilerAction.RECORD


def tensorboard_trace_handler(dir_name, worker_name=None, use_gzip=False, *, use_python_export=False):
    """A handler that writes each recording as `<worker>.<nanoseconds>.pt.trace.json` into a folder."""
    def handle(prof):
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json"
        prof.export_chrome_trace(os.path.join(dir_name, name + (".gz" if use_gzip else "")))
    return handle


class profile:
    """Records operators in the steps that `schedule` chooses; `step()` says that the next one begins.

    execution_trace_observer: an ExecutionTraceObserver that observes while operators are recorded, and writes its file
    at the end.

    >>> import flambeau
    >>> with flambeau.profiler.profile(record_shapes=True, profile_memory=True) as prof:
    ...     y = flambeau.ones(64, 64) @ flambeau.ones(64, 64)
    >>> [a.count for a in prof.key_averages() if a.key == "aten::matmul"]
    [1]
    >>> "Self CPU time total" in prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=5)
    True
    """

    def __init__(self, *, activities=None, schedule=None, on_trace_ready=None, record_shapes=False,
                 profile_memory=False, with_stack=False, with_flops=False, with_modules=False,
                 experimental_config=None, execution_trace_observer=None, acc_events=False, use_cuda=None,
                 custom_trace_id_callback=None, post_processing_timeout_s=None):
        if use_cuda or not _recordable(activities):
            raise AssertionError("profile: no activity to record; ProfilerActivity.CPU is the one that there is")
        self.execution_trace_observer = execution_trace_observer or \
            ExecutionTraceObserver.build_execution_trace_obs_from_env()
        self.record_steps = schedule is not None
        self.schedule, self.on_trace_ready = schedule or _default_schedule_fn, on_trace_ready
        self._make = lambda: _Recording(record_shapes=record_shapes, profile_memory=profile_memory,
                                        with_stack=with_stack, with_flops=with_flops, with_modules=with_modules,
                                        experimental_config=experimental_config,
                                        custom_trace_id_callback=custom_trace_id_callback,
                                        post_processing_timeout_s=post_processing_timeout_s)
        self._make()  # refuses what it cannot do before the loop begins
        KinetoStepTracker.init_step_count("ProfilerStep")
        self.acc_events, self._kept = acc_events, []
        self.step_num, self.profiler, self._running, self._metadata = 0, None, False, {}
        self._range = None
        self.current_action = self.schedule(0)

    # ---- the loop

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        """Begins with step 0."""
        if self.current_action in _RECORDING:
            self._begin()
        self._begin_step()

    def stop(self):
        """Ends; what was being recorded goes to the handler."""
        self._end_step()
        if self._running:
            self._end()
            self._hand_over()
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.cleanup()

    def step(self):
        """The next step begins."""
        self._end_step()
        before = self.current_action
        self.step_num += 1
        KinetoStepTracker.increment_step("ProfilerStep")
        self.current_action = self.schedule(self.step_num)
        if self._running and (before is ProfilerAction.RECORD_AND_SAVE or self.current_action not in _RECORDING):
            self._end()
            self._hand_over()
        if not self._running and self.current_action in _RECORDING:
            self._begin()
        self._begin_step()

    def _begin(self):
        self.profiler = self._make()
        self.profiler.__enter__()
        self._running = True
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.start()

    def _end(self):
        self._running = False
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.stop()
        self.profiler.__exit__(None, None, None)
        if self.acc_events:
            self._kept.extend(self.profiler.function_events)

    def _hand_over(self):
        if self.on_trace_ready:
            self.on_trace_ready(self)

    def _begin_step(self):
        if self._running and self.record_steps:
            self._range = record_function(f"ProfilerStep#{self.step_num}").__enter__()

    def _end_step(self):
        if self._range is not None:
            self._range.__exit__()
            self._range = None

    # ---- results

    def events(self):
        """The EventList of the last recording (of all, with acc_events=True)."""
        if self.profiler is None or self.profiler.function_events is None:
            raise AssertionError("profile: nothing was recorded yet")
        return EventList(self._kept) if self.acc_events else self.profiler.function_events

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0, group_by_overload_name=False):
        """Times, memory and counts by name; `.table()` prints them."""
        return self.events().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def export_chrome_trace(self, path):
        """A JSON file (compressed, if the name ends in .gz) that chrome://tracing and Perfetto open."""
        with (gzip.open if str(path).endswith(".gz") else open)(path, "wt") as out:
            json.dump(chrome_trace(self.events(), self._metadata), out)

    def export_stacks(self, path, metric="self_cpu_time_total"):
        """Stacks with their time, for flame graphs (with_stack=True)."""
        self.events().export_stacks(path, metric)

    def add_metadata(self, key, value):
        """A string for the trace file."""
        self._metadata[key] = str(value)

    def add_metadata_json(self, key, value):
        """A JSON text for the trace file."""
        self._metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json

    def toggle_collection_dynamic(self, enable, activities):
        """Recording of these activities off and on again inside one recording."""
        if not self._running:
            raise RuntimeError("profile: toggle_collection_dynamic needs a running recording")
        if not _recordable(activities):
            return
        if enable:
            _C.profile_resume(self.profiler.options)
        else:
            _C.profile_pause()
