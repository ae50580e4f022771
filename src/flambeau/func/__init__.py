"""Function transforms: `vmap`, `grad`, `vjp`, `jacrev` … take a function and return another one; they nest freely.

How they work is told in `docs/transforms.md`; in reading order: `_levels`, `_batched`, `_vmap`, `_grad`.
"""

from . import _dim_rules as _dim_rules
from . import _function as _function
from . import _index_rules as _index_rules
from . import _layer_rules as _layer_rules
from . import _matrix_rules as _matrix_rules
from . import _random_rules as _random_rules
from . import _view_rules as _view_rules
from ._functional_call import functional_call as functional_call
from ._functional_call import functionalize as functionalize
from ._functional_call import replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_
from ._functional_call import stack_module_state as stack_module_state
from ._grad import grad as grad
from ._grad import grad_and_value as grad_and_value
from ._grad import jacrev as jacrev
from ._grad import vjp as vjp
from ._jvp import hessian as hessian
from ._jvp import jacfwd as jacfwd
from ._jvp import jvp as jvp
from ._jvp import linearize as linearize
from ._levels import debug_unwrap as debug_unwrap
from ._rearrange import rearrange as rearrange
from ._vmap import vmap as vmap
