"""torch._dynamo.backends.common: backends made of compilers of operator graphs."""

from .....compiler._aot import aot_autograd as aot_autograd
