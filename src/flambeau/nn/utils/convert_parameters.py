"""Parameters as one flat vector, and back."""

from ... import Tensor, cat


def parameters_to_vector(parameters):
    """All parameters, flattened and joined; gradients flow through.

    >>> import flambeau
    >>> flambeau.nn.utils.parameters_to_vector(flambeau.nn.Linear(2, 3).parameters()).shape
    torch.Size([9])
    """
    return cat([param.reshape(-1) for param in parameters])


def vector_to_parameters(vec, parameters):
    """Make each parameter a slice of `vec`, in order."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"vector_to_parameters: vec must be a tensor, not a {type(vec).__name__}")
    start = 0
    for param in parameters:
        count = param.numel()
        param.data = vec[start : start + count].view_as(param).data
        start += count
