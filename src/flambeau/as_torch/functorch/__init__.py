"""The package `functorch`: the transforms of `flambeau.func` under an older name, models as functions of tuples."""

from ...func import functionalize as functionalize
from ...func import grad as grad
from ...func import grad_and_value as grad_and_value
from ...func import hessian as hessian
from ...func import jacfwd as jacfwd
from ...func import jacrev as jacrev
from ...func import jvp as jvp
from ...func import vjp as vjp
from ...func import vmap as vmap
from ...fx.experimental.proxy_tensor import make_fx as make_fx
from .._version import __version__ as __version__
from ._models import FunctionalModule as FunctionalModule
from ._models import FunctionalModuleWithBuffers as FunctionalModuleWithBuffers
from ._models import combine_state_for_ensemble as combine_state_for_ensemble
from ._models import make_functional as make_functional
from ._models import make_functional_with_buffers as make_functional_with_buffers
