"""Norms of many tensors and their product with one number: kernels that native/cuda/many.cpp launches. See many.cuh."""

from .launches import FILES
from .pointwise import function_of, text, type_of
from .reductions import norm_order

_KERNEL = """extern "C" __global__ void __launch_bounds__(256) {name}(const __grid_constant__ many::Jobs jobs,
    {parameters}) {{
{body}}}
"""


def _kernel(name, parameters, body):
    function = function_of(name)
    return function, text(*FILES, "reduce.cuh", "many.cuh") + _KERNEL.format(name=function, parameters=parameters,
                                                                             body=body)


def _norms(name, statement):
    """A family whose key is "float32 2": the elements' dtype and the order."""
    def family(key):
        dtype, order = key.split()
        kind, wide, _ = type_of(dtype, name)
        body = f"  typedef Lanes<Norm<{kind}, {wide}>> Op;\n  Op op;\n{norm_order(float(order))}  {statement};\n"
        return _kernel(name, f"{wide}* partial, {kind}* out", body)
    return family


def _scale(key):
    """"float32 float64": the elements' dtype and that of the number."""
    kind, factor = (type_of(dtype, "scale")[0] for dtype in key.split())
    return _kernel("scale", f"const {factor}* factor", f"  many::scale<{kind}>(jobs, factor);\n")


FAMILIES = {"norms": _norms("norms", "many::norms(op, jobs, partial, out)"),
            "norms_joined": _norms("norms_joined", "many::join(op, jobs, partial, out)"), "scale": _scale}
