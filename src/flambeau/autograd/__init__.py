"""Reverse-mode differentiation as seen from Python: computing gradients, switching recording, custom derivatives.

The graph and the engine are native (`native/autograd`); the derivative rules are the lambdas of `flambeau.ops`.
"""

import importlib as _importlib

from .._shown import shown
from . import _nodes as _nodes
from . import anomaly_mode as anomaly_mode
from . import function as function
from . import functional as functional
from . import grad_mode as grad_mode
from . import graph as graph
from ._call import backward as backward
from ._call import grad as grad
from .anomaly_mode import detect_anomaly as detect_anomaly
from .anomaly_mode import set_detect_anomaly as set_detect_anomaly
from .function import Function as Function
from .function import NestedIOFunction as NestedIOFunction
from .function import Variable as Variable
from .function import _is_checkpoint_valid as _is_checkpoint_valid
from .grad_mode import enable_grad as enable_grad
from .grad_mode import enforce_grad_layout_policy as enforce_grad_layout_policy
from .grad_mode import inference_mode as inference_mode
from .grad_mode import is_grad_enabled as is_grad_enabled
from .grad_mode import is_inference_mode_enabled as is_inference_mode_enabled
from .grad_mode import no_grad as no_grad
from .grad_mode import set_grad_enabled as set_grad_enabled
from .grad_mode import set_multithreading_enabled as set_multithreading_enabled
from .gradcheck import GradcheckError as GradcheckError
from .gradcheck import gradcheck as gradcheck
from .gradcheck import gradgradcheck as gradgradcheck
from .graph import SavedTensor as SavedTensor

#: loaded when first used
_LAZY = ("forward_ad", "profiler")
#: names of the profiler that packages ask for here
_OF_PROFILER = ("_disable_profiler", "_profiler_enabled", "kineto_available")


def __getattr__(name):
    if name in _LAZY:
        return _importlib.import_module(f"{__name__}.{name}")
    if name in _OF_PROFILER:
        return getattr(_importlib.import_module(f"{__name__}.profiler"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {shown(name)}")
