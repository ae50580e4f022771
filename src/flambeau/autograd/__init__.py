"""Reverse-mode differentiation, as seen from Python: who asks for gradients, where, and own derivatives.

The graph and the engine are native (`native/autograd`); the derivative rules are the lambdas of `flambeau.ops`.
"""

from . import function as function
from . import functional as functional
from . import grad_mode as grad_mode
from . import graph as graph
from ._call import backward as backward
from ._call import grad as grad
from .function import Function as Function
from .grad_mode import enable_grad as enable_grad
from .grad_mode import inference_mode as inference_mode
from .grad_mode import is_grad_enabled as is_grad_enabled
from .grad_mode import is_inference_mode_enabled as is_inference_mode_enabled
from .grad_mode import no_grad as no_grad
from .grad_mode import set_grad_enabled as set_grad_enabled
from .gradcheck import GradcheckError as GradcheckError
from .gradcheck import gradcheck as gradcheck
from .gradcheck import gradgradcheck as gradgradcheck
