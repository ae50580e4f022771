"""torch._functorch.aot_autograd: graphs of forward and backward for compilers of one's own, and for export."""

from ....compiler._aot import aot_function as aot_function
from ....compiler._aot import aot_module as aot_module
from ....compiler._aot import aot_module_simplified as aot_module_simplified
from ....compiler._aot import make_boxed_compiler as make_boxed_compiler
from ....compiler._aot import make_boxed_func as make_boxed_func
from ....export import export
from ....export.experimental import export_forward_backward
from ....nn import Module


def aot_export_module(mod, args, *, decompositions=None, trace_joint, output_loss_index=None, kwargs=None):
    """(module, signature): the graph of a module's operators, whose inputs are its parameters, buffers and arguments.

    trace_joint: the graph also returns the gradients of the parameters, from the result number output_loss_index.
    """
    if not isinstance(mod, Module):
        raise RuntimeError(f"aot_export_module: expected a Module, got a {type(mod).__name__}")
    if trace_joint and output_loss_index is None:
        raise RuntimeError("aot_export_module: trace_joint=True needs output_loss_index, the number of the result that "
                           "is the loss")
    program = export(mod, tuple(args), dict(kwargs or {}))
    if trace_joint:
        program = export_forward_backward(program, output_loss_index)
    else:
        program = program.run_decompositions(decompositions or {})
    return program.graph_module, program.graph_signature
