"""The old place of `functional_call`, now `flambeau.func.functional_call`."""

import warnings

import flambeau


def functional_call(module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """As `flambeau.func.functional_call`, under its old name."""
    warnings.warn("nn.utils.stateless.functional_call is the old name of flambeau.func.functional_call; use the latter",
                  FutureWarning, stacklevel=2)
    return flambeau.func.functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
