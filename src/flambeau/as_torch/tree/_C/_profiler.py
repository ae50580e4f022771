"""torch._C._profiler: settings of a profile."""

from ....autograd.profiler import _ExperimentalConfig as _ExperimentalConfig
