"""`functorch.compile`: forward and backward of a function as graphs, for compilers of one's own."""

from ..tree._decomp import get_decompositions
from ..tree._functorch.aot_autograd import aot_function as aot_function
from ..tree._functorch.aot_autograd import aot_module as aot_module
from ..tree._functorch.aot_autograd import aot_module_simplified as aot_module_simplified
from ..tree._functorch.aot_autograd import make_boxed_compiler as make_boxed_compiler
from ..tree._functorch.aot_autograd import make_boxed_func as make_boxed_func
from ..tree._functorch.compilers import memory_efficient_fusion as memory_efficient_fusion
from ..tree._functorch.compilers import nop as nop
from ..tree._functorch.compilers import print_compile as print_compile
from ..tree._functorch.compilers import ts_compile as ts_compile
from ..tree._functorch.partitioners import default_partition as default_partition
from ..tree._functorch.partitioners import min_cut_rematerialization_partition as min_cut_rematerialization_partition

compiled_function, compiled_module = aot_function, aot_module
#: operators that graphs need not have, and what they are computed from
default_decompositions = get_decompositions([])
