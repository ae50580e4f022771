"""local_map: a function of plain tensors, called with the parts that this rank has of DTensors."""

import functools

from ...._shown import shown
from ....utils._pytree import tree_flatten, tree_unflatten
from .._api import DTensor
from ..placement_types import Placement


def _one_each(placements, count, what):
    """How each of `count` values is spread: None says that it is no DTensor. The placements of one value may stand
    alone."""
    if placements is None or isinstance(placements, list) or all(isinstance(p, Placement) for p in placements):
        placements = (placements or None,)
    if len(placements) != count:
        raise ValueError(f"local_map: {what} are for {len(placements)} values, and there are {count}: give each its "
                         "placements, or None where it is no DTensor")
    return placements


def _local(value, wanted, grad_placements, redistribute):
    if not isinstance(value, DTensor):
        return value
    if wanted is None:
        raise ValueError("local_map: in_placements has None for an argument that is a DTensor; say how it is spread")
    if tuple(wanted) != tuple(value.placements):
        if not redistribute:
            raise ValueError(f"local_map: an argument is spread as {shown(value.placements)}, and in_placements say "
                             f"{shown(tuple(wanted))}; redistribute() it, or pass redistribute_inputs=True")
        value = value.redistribute(value.device_mesh, wanted)
    return value.to_local(grad_placements=grad_placements)


def local_map(func=None, out_placements=None, in_placements=None, in_grad_placements=None, device_mesh=None, *,
              redistribute_inputs=False):
    """func, which takes and returns plain tensors, as a function of DTensors: each rank calls it with its own parts,
    and what it returns is this rank's part of DTensors that are spread as out_placements say. Also a decorator.

    Placements are one tuple entry for each argument, or result, in the order of the flattened arguments: a list of
    placements, or None for what is no DTensor. in_placements (None: as they come): how the arguments must be spread;
    others are refused, or redistributed with redistribute_inputs. in_grad_placements: how the gradients by the parts
    are spread, where that is not as the arguments are. device_mesh (that of the first DTensor): that of the results.
    Without a DTensor among the arguments, and without a mesh, func is called as it is.

    >>> import flambeau
    >>> from flambeau.distributed.tensor.experimental import local_map
    >>> local_map(lambda x: x + 1, out_placements=[])(flambeau.ones(2))
    tensor([2., 2.])
    """
    if func is None:
        return functools.partial(local_map, out_placements=out_placements, in_placements=in_placements,
                                 in_grad_placements=in_grad_placements, device_mesh=device_mesh,
                                 redistribute_inputs=redistribute_inputs)

    @functools.wraps(func)
    def call(*args, **kwargs):
        flat, spec = tree_flatten(args)
        mesh = device_mesh or next((x.device_mesh for x in flat if isinstance(x, DTensor)), None)
        if mesh is None:
            return func(*args, **kwargs)
        wanted = [getattr(x, "placements", None) for x in flat]
        if in_placements is not None:
            wanted = _one_each(in_placements, len(flat), "in_placements")
        grads = [None] * len(flat)
        if in_grad_placements is not None:
            grads = _one_each(in_grad_placements, len(flat), "in_grad_placements")
        parts = [_local(*each, redistribute_inputs) for each in zip(flat, wanted, grads, strict=True)]
        results, shape = tree_flatten(func(*tree_unflatten(parts, spec), **kwargs))
        spread = _one_each(out_placements, len(results), "out_placements")
        return tree_unflatten([x if p is None else DTensor.from_local(x, mesh, p)
                               for x, p in zip(results, spread, strict=True)], shape)

    return call
