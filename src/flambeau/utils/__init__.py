"""Helpers around tensors: hooks, data loading, measuring, writing down, extending."""

import importlib

from .._shown import shown
from . import hooks as hooks
from ._swap import set_module as set_module
from ._swap import swap_tensors as swap_tensors

#: where `find_package(Flambeau)` finds the library that runs exported programs without Python
cmake_prefix_path = __file__.rpartition("/utils/")[0] + "/share/cmake"

_LAZY = ("_mode_utils", "_python_dispatch", "_pytree", "backend_registration", "benchmark", "bottleneck", "checkpoint",
         "collect_env", "cpp_extension", "data", "deterministic", "dlpack", "flop_counter", "mkldnn",
         "mobile_optimizer", "model_zoo", "module_tracker", "tensorboard", "throughput_benchmark", "weak")


def __getattr__(name):
    if name in _LAZY:
        return importlib.import_module(f"{__name__}.{name}")
    if name == "ThroughputBenchmark":
        return importlib.import_module(f"{__name__}.throughput_benchmark").ThroughputBenchmark
    raise AttributeError(f"module {__name__!r} has no attribute {shown(name)}")
