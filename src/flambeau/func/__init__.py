"""Function transforms: `vmap`, `grad`, `vjp`, `jacrev` … take a function and return another one; they nest freely.

How they work is told in `docs/transforms.md`, and written in `flambeau/_transforms`.
"""

from .._transforms import debug_unwrap as debug_unwrap
from .._transforms import grad as grad
from .._transforms import grad_and_value as grad_and_value
from .._transforms import hessian as hessian
from .._transforms import jacfwd as jacfwd
from .._transforms import jacrev as jacrev
from .._transforms import jvp as jvp
from .._transforms import linearize as linearize
from .._transforms import vjp as vjp
from .._transforms import vmap as vmap
from ._functional_call import functional_call as functional_call
from ._functional_call import functionalize as functionalize
from ._functional_call import replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_
from ._functional_call import stack_module_state as stack_module_state
from ._rearrange import rearrange as rearrange
