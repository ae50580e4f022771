"""Tensors cut along a dimension, one piece per device, and put together again; containers are taken apart."""

import warnings

from ... import Tensor, cat, device


def _rebuilt(like, values):
    return type(like)(*values) if hasattr(like, "_fields") else type(like)(values)


def scatter(inputs, target_gpus, dim=0):
    """A list with one copy of `inputs` per device, in which every tensor is one piece of the original's `dim`.

    >>> import flambeau
    >>> [part.tolist() for part in flambeau.nn.parallel.scatter(flambeau.arange(4), ["cpu", "cpu"])]
    [[0, 1], [2, 3]]
    """
    places = [device(place) for place in target_gpus]

    def parts(x):
        if isinstance(x, Tensor):
            pieces = x.chunk(len(places), dim)
            return [piece.to(place) for piece, place in zip(pieces, places)]  # short tensors give fewer pieces
        if isinstance(x, dict) and x:
            return [type(x)(items) for items in zip(*map(parts, x.items()))]
        if isinstance(x, (tuple, list)) and len(x):
            return [_rebuilt(x, values) for values in zip(*map(parts, x))]
        return [x for _ in places]

    return parts(inputs)


def scatter_kwargs(inputs, kwargs, target_gpus, dim=0):
    """(tuple of positional arguments, tuple of keyword arguments), one of each per device."""
    positional = scatter(inputs, target_gpus, dim) if inputs else []
    named = scatter(kwargs, target_gpus, dim) if kwargs else []
    count = max(len(positional), len(named))
    positional += [()] * (count - len(positional))
    named += [{}] * (count - len(named))
    return tuple(positional), tuple(named)


def gather(outputs, target_device, dim=0):
    """The results of several devices as one: tensors are joined along `dim`, numbers become a vector.

    >>> import flambeau
    >>> flambeau.nn.parallel.gather([flambeau.zeros(1), flambeau.ones(2)], "cpu")
    tensor([0., 1., 1.])
    """
    first = outputs[0]
    if isinstance(first, Tensor):
        if all(t.dim() == 0 for t in outputs) and dim == 0:
            warnings.warn("gather: tensors without dimensions have no dim 0 to join; the result is a vector of "
                          "them", stacklevel=2)  # fmt: skip
            outputs = [t.unsqueeze(0) for t in outputs]
        return cat([t.to(target_device) for t in outputs], dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(out) != len(first) for out in outputs):
            raise ValueError(f"gather: the dicts must have the same keys, got {[len(out) for out in outputs]} of them")
        return type(first)((key, gather([out[key] for out in outputs], target_device, dim)) for key in first)
    return _rebuilt(first, [gather(values, target_device, dim) for values in zip(*outputs, strict=True)])
