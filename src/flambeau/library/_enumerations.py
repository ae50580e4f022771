"""Enumerations that programs refer to: kinds of operators, of dispatch, of averages."""

from enum import Enum

from .._shown import NamedNumber

Tag = Enum("Tag", ["core", "cudagraph_unsafe", "data_dependent_output", "dynamic_output_shape", "flexible_layout",
                   "generated", "inplace", "inplace_view", "maybe_aliasing_or_mutating", "needs_contiguous_strides",
                   "needs_exact_strides", "needs_fixed_stride_order", "nondeterministic_bitwise",
                   "nondeterministic_seeded", "out", "out_variant", "pointwise", "pt2_compliant_tag", "reduction",
                   "view_copy"])
Tag.__doc__ = "What a custom operator says of itself; kept, and without effect here."

DispatchKey = Enum("DispatchKey", ["Undefined", "CompositeExplicitAutograd", "CompositeImplicitAutograd", "Autograd",
                                   "AutogradCPU", "AutogradCUDA", "AutogradMeta", "ADInplaceOrView", "AutocastCPU",
                                   "AutocastCUDA", "BackendSelect", "Functionalize", "Python", "CPU", "CUDA", "Meta",
                                   "XPU", "AutocastXPU", "AutogradXPU", "PrivateUse1", "AutogradPrivateUse1"])
DispatchKey.__doc__ = "Where an implementation belongs, by PyTorch's names; those that have a meaning here."


class AggregationType(NamedNumber):
    """How partial results are put together."""

    SUM = 0
    AVG = 1
