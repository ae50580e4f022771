"""torch.export.experimental: programs that return their loss and its gradients."""

from .._shown import shown
from ..autograd import grad
from ..utils._pytree import tree_flatten
from ._decompositions import Rerun, retraced
from .decomp_utils import CustomDecompTable
from .exported_program import ExportedProgram
from .graph_signature import InputKind, OutputKind, OutputSpec, TensorArgument

_KINDS = {InputKind.PARAMETER: OutputKind.GRADIENT_TO_PARAMETER,
          InputKind.USER_INPUT: OutputKind.GRADIENT_TO_USER_INPUT}


class _WithGradients(Rerun):
    """One run of a program, and of the backward pass of one of its results."""

    def __init__(self, program, loss, env, keeps_steps):
        super().__init__(program, CustomDecompTable.all(), env, keeps_steps)
        self.loss = loss
        self.examples = iter(tree_flatten(program.example_inputs or ())[0])

    def _argument(self, node, spec):
        value = super()._argument(node, spec)
        example = next(self.examples, None) if spec.kind is InputKind.USER_INPUT else None
        return value.requires_grad_() if getattr(example, "requires_grad", False) else value

    def after(self, values, results):
        """The results, then the gradients of all inputs that require one."""
        specs, results = self.program.graph_signature.input_specs, list(results)
        self.wanted = [(s, x) for s, x in zip(specs, values, strict=True)
                       if s.kind in _KINDS and getattr(x, "requires_grad", False)]
        return [*results, *grad(results[self.loss], [x for _, x in self.wanted], allow_unused=True,
                                materialize_grads=True)]

    def output_specs(self):
        """Those of the results, of which one is the loss, and of the gradients."""
        own = list(super().output_specs())
        own[self.loss] = OutputSpec(OutputKind.LOSS_OUTPUT, own[self.loss].arg, None)
        return [*own, *(OutputSpec(_KINDS[s.kind], TensorArgument(s.arg.name), s.target or s.arg.name)
                        for s, _ in self.wanted)]


def export_forward_backward(ep, joint_loss_index=0):
    """The program that also returns the gradients of its parameters, and of arguments that require one.

    ep: an exported program. joint_loss_index: which of its results is the loss, a number that requires a gradient.
    `graph_signature.backward_signature` names them; `graph_module` takes the inputs that graph_signature lists.

    >>> import flambeau
    >>> from flambeau.export.experimental import export_forward_backward
    >>> class Loss(flambeau.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.weight = flambeau.nn.Parameter(flambeau.tensor([1.0, 2.0]))
    ...     def forward(self, x):
    ...         return (self.weight * x).sum()
    >>> program = export_forward_backward(flambeau.export.export(Loss(), (flambeau.ones(2),)))
    >>> program.graph_module(flambeau.tensor([1.0, 2.0]), flambeau.tensor([3.0, 4.0]))
    (tensor(11.), tensor([3., 4.]))
    >>> list(program.graph_signature.backward_signature.gradients_to_parameters.values())
    ['weight']
    """
    count = len(ep.graph_signature.output_specs)
    kinds = [spec.kind for spec in ep.graph_signature.output_specs]
    if not isinstance(joint_loss_index, int) or not 0 <= joint_loss_index < count or \
            kinds[joint_loss_index] is not OutputKind.USER_OUTPUT:
        raise RuntimeError(f"export_forward_backward: joint_loss_index must name one of the {count} results of the "
                           f"program, got {shown(joint_loss_index)}")
    found = retraced(lambda env, keeps_steps: _WithGradients(ep, joint_loss_index, env, keeps_steps))
    module, signature, calls, constants, checks = found
    made = ExportedProgram(module, module.graph, signature, ep.state_dict, ep.range_constraints, calls,
                           ep.example_inputs, constants, checks=checks)
    made._dialect = "ATEN"
    return made


_export_forward_backward = export_forward_backward  # PyTorch's name
