"""Bounding gradients, by their common norm or element by element."""

import warnings
from collections.abc import Iterator

from ... import Tensor, cat, no_grad, stack, tensor
from ..._shown import shown
from ..._tensor.foreach import multiply_, together
from ...ops.kinds import OPS


def _with_grads(parameters):
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [p.grad for p in parameters if p.grad is not None]


def _norms(tensors, norm_type):
    """The norm of every tensor, in one dimension; on a GPU many are computed at once."""
    first = tensors[0].device
    groups, others = together(tensors)
    parts = [OPS["_norms"]([tensors[k] for k in places], norm_type).to(first) for places in groups]
    if others:
        parts.append(stack([tensors[k].norm(norm_type).to(first) for k in others]))
    return parts[0] if len(parts) == 1 else cat(parts)


@no_grad()
def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The norm of all tensors, seen as one vector; `foreach` chooses nothing here: there is one way.

    >>> import flambeau
    >>> flambeau.nn.utils.get_total_norm([flambeau.tensor([3.0]), flambeau.tensor([4.0])])
    tensor(5.)
    """
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not tensors:
        return tensor(0.0)
    norm_type = float(norm_type)
    total = _norms(tensors, norm_type).norm(norm_type)
    if error_if_nonfinite and not total.isfinite().item():
        raise RuntimeError(
            f"clip_grad_norm_: the total norm (norm_type={shown(norm_type)}) of the gradients is {total.item()}; look "
            "for the gradient that is not finite, or pass error_if_nonfinite=False to scale by it"
        )
    return total


@no_grad()
def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    """Scale the gradients by max_norm / total_norm where that is less than 1."""
    grads = _with_grads(parameters)
    factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)  # no branch: the value need not be known here
    by_device = {}
    for grad in grads:
        by_device.setdefault(grad.device, []).append(grad)
    for device, there in by_device.items():
        multiply_(there, factor.to(device))


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scale the gradients of `parameters` down to a common norm of at most `max_norm`; returns the norm before.

    >>> import flambeau
    >>> p = flambeau.zeros(2, requires_grad=True)
    >>> p.grad = flambeau.tensor([3.0, 4.0])
    >>> flambeau.nn.utils.clip_grad_norm_(p, 1.0)
    tensor(5.)
    """
    used_up = isinstance(parameters, Iterator)
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    if used_up and not parameters:
        warnings.warn("clip_grad_norm_: parameters is an iterator without elements, so no gradient is clipped; one "
                      "that has been used is at its end", stacklevel=2)
    total = get_total_norm(_with_grads(parameters), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parameters, max_norm, total)
    return total


def clip_grad_norm(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The old name of clip_grad_norm_."""
    warnings.warn(
        "nn.utils.clip_grad_norm is the old name of nn.utils.clip_grad_norm_; use the latter",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@no_grad()
def clip_grad_value_(parameters, clip_value, foreach=None):
    """Clamp every element of the gradients to [-clip_value, clip_value].

    >>> import flambeau
    >>> p = flambeau.zeros(2, requires_grad=True)
    >>> p.grad = flambeau.tensor([3.0, -4.0])
    >>> flambeau.nn.utils.clip_grad_value_(p, 1.0)
    >>> p.grad
    tensor([ 1., -1.])
    """
    bound = float(clip_value)
    for grad in _with_grads(parameters):
        grad.clamp_(min=-bound, max=bound)
