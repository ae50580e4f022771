"""Kernels that no signature names: native code asks for them by a family and a key."""

from . import groups, many
from .compiling import compile
from .launches import FILES
from .pointwise import function_of, text, type_of

_LAWS = ("SGD", "Adam", "RMSprop", "Adadelta", "Adagrad")
_OPTIM = """extern "C" __global__ void __launch_bounds__({threads}) {name}(const __grid_constant__ optim::Jobs jobs,
    const optim::OptimArgs args) {{
  {statement}
}}
"""


def _optim(key):
    """A step over many tensors: "1 float32" is Adam's for tensors of float32."""
    number, dtype = key.split()
    law = _LAWS[int(number)]
    step = f"optim::step<optim::{law}, {type_of(dtype, law)[0]}>(optim::OptimKind::{law}, jobs, args);"
    return _optim_kernel(law, 256, step)


def _optim_counts(key):
    """Step counts that lie on the device go on by one."""
    assert not key
    return _optim_kernel("count_steps", 64, "optim::count_steps(jobs);")


def _optim_kernel(name, threads, statement):
    function = function_of(name)
    return function, text(*FILES, "optim.cuh") + _OPTIM.format(threads=threads, name=function, statement=statement)


#: family -> function(key) -> (the kernel's name, text)
FAMILIES = {"optim": _optim, "optim_counts": _optim_counts, "group": groups.source} | many.FAMILIES


def named(family, key, arch):
    """(image, function) of the kernel that a family makes for a key."""
    function, source = FAMILIES[family](key)
    return compile(source, arch, f"{family} {key}".strip()), function
