"""How operators run inside `vmap` and `jvp`, and the transforms themselves; `flambeau.func` gives them their names.

`docs/transforms.md` tells how they work. In reading order: `levels`, `batched`, `vmap`, `reverse`,
then `dual`, `push` and `forward`.
"""

from . import dim_rules as dim_rules
from . import index_rules as index_rules
from . import layer_rules as layer_rules
from . import matrix_rules as matrix_rules
from . import random_rules as random_rules
from . import view_rules as view_rules
from .forward import hessian as hessian
from .forward import jacfwd as jacfwd
from .forward import jvp as jvp
from .forward import linearize as linearize
from .levels import debug_unwrap as debug_unwrap
from .reverse import grad as grad
from .reverse import grad_and_value as grad_and_value
from .reverse import jacrev as jacrev
from .reverse import vjp as vjp
from .vmap import vmap as vmap
