"""What programs know as `functorch.experimental`, and this library keeps in `flambeau.func`."""

from ....func import functionalize as functionalize
from ....func import hessian as hessian
from ....func import jacfwd as jacfwd
from ....func import jvp as jvp
from ....func import replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_
