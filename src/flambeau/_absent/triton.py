"""Triton writes kernels for GPUs in a language of its own, which this library does not use."""

from . import refusals

_REASON = "kernels are not written in Triton here"


def has_triton():
    """Whether functions can be compiled with Triton: no, also where it is installed."""
    return False


has_triton_package = has_triton_tma = has_triton_tma_device = has_triton

globals().update(refusals("sparse", _REASON, """
    get_meta(op, key, device_name=None, version=None, exact=False) update(op, device_name, version, key, value)
    minimize(target_func, initial_parameters, step_func, all_values=None)
    """))
