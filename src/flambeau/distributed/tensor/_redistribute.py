"""Moving a tensor from one set of placements to another: which collectives, on which mesh dimension, in which order."""

import flambeau

from ..._shown import listed
from .. import _collectives as collectives
from .._values import ReduceOp
from ._utils import chunk_of, chunk_sizes, shard_order
from .placement_types import Partial, Replicate, Shard

_OPS = {"sum": ReduceOp.SUM, "avg": ReduceOp.AVG, "product": ReduceOp.PRODUCT, "max": ReduceOp.MAX,
        "min": ReduceOp.MIN, "band": ReduceOp.BAND, "bor": ReduceOp.BOR, "bxor": ReduceOp.BXOR}


def redistributed(local, spec, placements):
    """This rank's part under other placements."""
    if tuple(placements) == spec.placements or spec.mesh.get_coordinate() is None:
        return local
    current = list(spec.placements)
    for i, target in steps(spec.placements, placements):
        local = _move(local, spec, current, i, target)
        current[i] = target
    return local


def steps(current, target):
    """[(mesh dimension, new placement)]: first what must be joined, inner cuts first; then the rest, outer first."""
    current, found = list(current), []
    for i in reversed(shard_order(current)):
        if _to_join(current, target, i):
            found.append((i, Replicate()))
            current[i] = Replicate()
    order = shard_order(target)
    for i in [i for i in range(len(target)) if i not in order] + order:
        if current[i] != target[i]:
            if isinstance(current[i], Partial) and isinstance(target[i], Partial):
                found.append((i, Replicate()))
            found.append((i, target[i]))
            current[i] = target[i]
    return found


def _to_join(current, target, i):
    """Whether the cut along mesh dimension i has to be undone before anything else."""
    cut, goal = current[i], target[i]
    others = [j for j in range(len(current)) if j != i]
    if cut == goal:
        return any(current[j] != target[j] and _outside(current, target, j, i)
                   and (current[j].is_shard(cut.dim) or target[j].is_shard(cut.dim)) for j in others)
    if not isinstance(goal, Shard) or cut.dim == goal.dim:
        return True
    return any(p.is_shard(cut.dim) or p.is_shard(goal.dim) for j in others for p in (current[j], target[j]))


def _outside(current, target, j, i):
    """Whether j cuts before i, in one of the two."""
    for placements in (current, target):
        order = shard_order(placements)
        if j in order and i in order and order.index(j) < order.index(i):
            return True
    return False


def _move(local, spec, current, i, target):
    source, group = current[i], spec.mesh.get_group(i)
    match source, target:
        case Shard(), Replicate():
            return _joined(local, source.dim, _sizes(spec, current, i), group)
        case Shard(), Shard():
            return _exchanged(local, source.dim, target.dim, _sizes(spec, current, i), group)
        case Partial(), Replicate():
            return _reduced(local, source, group)
        case Partial(), Shard():
            return _reduced_part(local, source, target.dim, group)
        case Replicate(), Shard():
            return part_of(local, target.dim, group.size(), spec.mesh.get_coordinate()[i])
        case Replicate(), Partial():
            return _as_partial(local, target, spec.mesh.get_coordinate()[i])
    raise NotImplementedError(f"redistribute: from {listed(current)} to {target} along mesh dimension {i} is not "
                              "available; go through Replicate()")


def _sizes(spec, placements, i):
    """The sizes of all parts along mesh dimension i, along the dimension that it cuts."""
    dim, coordinate = placements[i].dim, spec.mesh.get_coordinate()
    size = spec.tensor_meta.shape[dim]
    for j in shard_order(placements):
        if j == i:
            break
        if placements[j].dim == dim:
            size = chunk_of(size, spec.mesh.shape[j], coordinate[j])[0]
    return chunk_sizes(size, spec.mesh.shape[i])


def part_of(local, dim, ways, k):
    """Part k of `ways` along a dimension, in memory of its own."""
    size, offset = chunk_of(local.shape[dim], ways, k)
    return local.narrow(dim, offset, size).clone(memory_format=flambeau.contiguous_format)


def _with_size(shape, dim, size):
    return (*shape[:dim], size, *shape[dim + 1:])


def _joined(local, dim, sizes, group):
    if dim == 0 and min(sizes) == max(sizes):
        whole = flambeau.empty(_with_size(local.shape, 0, sum(sizes)), dtype=local.dtype)
        collectives.all_gather_into_tensor(whole, local.contiguous(), group)
        return whole
    parts = [flambeau.empty(_with_size(local.shape, dim, size), dtype=local.dtype) for size in sizes]
    if min(sizes) == max(sizes):
        collectives.all_gather(parts, local.contiguous(), group)
    else:
        collectives.all_to_all(parts, [local.contiguous()] * len(sizes), group)
    return flambeau.cat(parts, dim)


def _exchanged(local, dim, other, sizes, group):
    """From parts along `dim` to parts along `other`."""
    there = chunk_sizes(local.shape[other], group.size())
    shape = _with_size(local.shape, other, there[group.rank()])
    parts = [flambeau.empty(_with_size(shape, dim, size), dtype=local.dtype) for size in sizes]
    collectives.all_to_all(parts, [p.contiguous() for p in local.split(there, other)], group)
    return flambeau.cat(parts, dim)


def _reduced(local, partial, group):
    result = local.clone(memory_format=flambeau.contiguous_format)
    collectives.all_reduce(result, _OPS[partial.reduce_op], group)
    return result


def _reduced_part(local, partial, dim, group):
    """This rank's part of the reduction; parts are padded to one size for the exchange."""
    sizes = chunk_sizes(local.shape[dim], group.size())
    parts = []
    for part in local.split(sizes, dim):
        whole = part.contiguous()
        if part.shape[dim] < sizes[0]:
            whole = part.new_zeros(_with_size(part.shape, dim, sizes[0]))
            whole.narrow(dim, 0, part.shape[dim]).copy_(part)
        parts.append(whole)
    result = flambeau.empty(parts[0].shape, dtype=local.dtype)
    collectives.reduce_scatter(result, parts, _OPS[partial.reduce_op], group)
    size = sizes[group.rank()]
    return result if size == sizes[0] else result.narrow(dim, 0, size).contiguous()


def _as_partial(local, partial, k):
    """Parts of a reduction whose result is the tensor: itself on the first rank, and on others what adds nothing."""
    if partial.reduce_op in ("avg", "max", "min", "band", "bor") or k == 0:
        return local.clone()
    return flambeau.ones_like(local) if partial.reduce_op == "product" else flambeau.zeros_like(local)
