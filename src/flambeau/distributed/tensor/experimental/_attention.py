"""context_parallel: inside it, tensors are the rank's parts of a sequence, and attention is over the whole of it."""

import contextlib
from dataclasses import dataclass

import flambeau

from ...._shown import shown
from ....ops import attention
from ....ops.dims import wrap_dim
from ... import _collectives as collectives
from ...device_mesh import DeviceMesh
from ._ring import ROTATIONS, RingAttention


@dataclass
class _ContextParallelOptions:
    """How sequences are cut (with load balance: a piece from the beginning and one from the end), and what moves."""

    enable_load_balance: bool = True
    rotate_method: str = "allgather"


_cp_options = _ContextParallelOptions()


def set_rotate_method(rotate_method):
    """How keys and values reach the other ranks: "allgather" (all at once) or "alltoall" (round the ranks, while the
    last ones are computed with, which keeps two parts instead of all).
    """
    if rotate_method not in ROTATIONS:
        raise NotImplementedError(f"set_rotate_method: expected \"allgather\" or \"alltoall\", got "
                                  f"{shown(rotate_method)}")
    _cp_options.rotate_method = rotate_method


def _group_of(mesh, name):
    if not isinstance(mesh, DeviceMesh) or mesh.ndim != 1:
        raise ValueError(f"{name}: mesh must be a DeviceMesh of one dimension, as mesh[\"cp\"], got {shown(mesh)}")
    return mesh.get_group()


def _pieces(size, balanced, rank=None):
    """The places, in a sequence of 2 n pieces (or n), of what rank `rank` has; of all ranks without it."""
    ranks = range(size) if rank is None else (rank,)
    return [k for r in ranks for k in ((r, 2 * size - 1 - r) if balanced else (r,))]


def _cut(x, dim, size, balanced, name):
    """The pieces of a sequence."""
    count = 2 * size if balanced else size
    if x.shape[dim] % count:
        raise ValueError(f"{name}: dimension {dim} of a buffer of shape {list(x.shape)} must be a multiple of {count} "
                         f"for {size} ranks, so that all have as much; pad it")
    return x.chunk(count, dim)


@contextlib.contextmanager
def context_parallel(mesh, *, buffers=None, buffer_seq_dims=None, no_restore_buffers=None):
    """Context in which each rank of a mesh has a part of every sequence, and attention is over all parts.

    The `buffers` (inputs, targets, tables of positions: alike on all ranks) become this rank's parts, in place, cut
    along `buffer_seq_dims`; at the end they are whole again, but for those in the set `no_restore_buffers`. Inside,
    `scaled_dot_product_attention` takes the parts of queries, keys and values, and so do the layers made of it. Masks
    and dropout are refused, `is_causal` is not; whatever else mixes positions sees the rank's own part alone. Backward
    may run inside or outside.

    Gradients of parameters are those of the part: add them up over the ranks (`DistributedDataParallel`, `fully_shard`,
    or `all_reduce`)   (Liu et al. 2023).

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.tensor.experimental import context_parallel
    >>> dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    >>> x = flambeau.randn(1, 2, 4, 8)  # batch, heads, sequence, width
    >>> with context_parallel(dist.init_device_mesh("cpu", (1,)), buffers=[x], buffer_seq_dims=[2]):
    ...     y = flambeau.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
    >>> y.shape
    torch.Size([1, 2, 4, 8])
    >>> dist.destroy_process_group()
    """
    name = "context_parallel"
    group, buffers, dims = _group_of(mesh, name), list(buffers or ()), list(buffer_seq_dims or ())
    if len(buffers) != len(dims):
        raise ValueError(f"{name}: {len(buffers)} buffers need as many buffer_seq_dims, got {len(dims)}")
    kept = set(map(id, no_restore_buffers or ()))
    if not kept <= set(map(id, buffers)):
        raise ValueError(f"{name}: no_restore_buffers must be among the buffers")
    if attention.over_ranks is not None:
        raise RuntimeError(f"{name}: it is in use already, and cannot be used inside itself")
    options = _ContextParallelOptions(**vars(_cp_options))
    whole = [x.detach() for x in buffers]
    parts = [_part(x, dim, group, options.enable_load_balance) for x, dim in zip(whole, dims)]
    for x, part in zip(buffers, parts):
        x.data = part
    attention.over_ranks = _over(group, options)
    try:
        yield
    finally:
        attention.over_ranks = None
        for x, before in zip(buffers, whole):
            if id(x) not in kept:
                x.data = before


def _part(x, dim, group, balanced):
    dim = wrap_dim(dim, x.ndim, "context_parallel")
    pieces = _cut(x, dim, group.size(), balanced, "context_parallel")
    return flambeau.cat([pieces[k] for k in _pieces(group.size(), balanced, group.rank())], dim)


def _over(group, options):
    def over_ranks(query, key, value, mask, dropout_p, is_causal, scale):
        what = "a mask" if mask is not None else "dropout" if dropout_p else None
        if what is not None:
            raise NotImplementedError(f"scaled_dot_product_attention: {what} is not available inside context_parallel; "
                                      "only is_causal is")
        balanced = options.enable_load_balance
        if is_causal and (query.shape[-2] != key.shape[-2] or (balanced and query.shape[-2] % 2)):
            raise ValueError(f"scaled_dot_product_attention: inside context_parallel, causal attention needs parts of "
                             f"one even length, got queries {list(query.shape)} and keys {list(key.shape)}")
        return RingAttention.apply(query, key, value, is_causal, scale, group, balanced,
                                   ROTATIONS[options.rotate_method])

    return over_ranks


def context_parallel_unshard(mesh, buffers, seq_dims):
    """Whole sequences, as new tensors, from the parts that the ranks of `mesh` have."""
    name, found = "context_parallel_unshard", []
    group, balanced = _group_of(mesh, name), _cp_options.enable_load_balance
    if len(buffers) != len(seq_dims):
        raise ValueError(f"{name}: {len(buffers)} buffers need as many seq_dims, got {len(seq_dims)}")
    order = _pieces(group.size(), balanced)
    for x, dim in zip(buffers, seq_dims):
        x, dim = x.detach().contiguous(), wrap_dim(dim, x.ndim, name)
        parts = [flambeau.empty_like(x) for _ in range(group.size())]
        collectives.all_gather(parts, x, group)
        pieces = [piece for part in parts for piece in _cut(part, dim, 1, balanced, name)]
        found.append(flambeau.cat([pieces[order.index(k)] for k in range(len(order))], dim))
    return found
