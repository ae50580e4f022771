"""Profiling of a training loop: which steps are recorded, and where each recording goes."""

from ..autograd.profiler import KinetoStepTracker as KinetoStepTracker
from ..autograd.profiler import _ExperimentalConfig as _ExperimentalConfig
from ..autograd.profiler import record_function as record_function
from ._execution_trace import ExecutionTraceObserver as ExecutionTraceObserver
from ._profile import DeviceType as DeviceType
from ._profile import ProfilerAction as ProfilerAction
from ._profile import ProfilerActivity as ProfilerActivity
from ._profile import kineto_available as kineto_available
from ._profile import profile as profile
from ._profile import schedule as schedule
from ._profile import supported_activities as supported_activities
from ._profile import tensorboard_trace_handler as tensorboard_trace_handler
