"""The old place of `functional_call`, now `flambeau.func.functional_call`."""

import warnings

import flambeau

from ...func._functional_call import _replaced


def _reparametrize_module(module, parameters_and_buffers, tie_weights=False, strict=False, stack_weights=False):
    """A block in which the module has these tensors in place of its parameters and buffers, shared ones under one name
    only unless `tie_weights`."""
    if stack_weights:
        raise NotImplementedError("_reparametrize_module: stack_weights=True is not available: inside the block, the "
                                  "module has the tensors themselves")
    return _replaced(module, parameters_and_buffers, tie_weights, strict)


def functional_call(module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """As `flambeau.func.functional_call`, under its old name."""
    warnings.warn("nn.utils.stateless.functional_call is the old name of flambeau.func.functional_call; use the latter",
                  FutureWarning, stacklevel=2)
    return flambeau.func.functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
