"""Where the part of a rank lies in the whole tensor."""

from ..._shown import listed, shown
from ...ops.dims import wrap_dim
from .placement_types import Placement, Replicate, Shard, _StridedShard


def shard_order(placements):
    """The mesh dimensions that cut, in the order in which they do: those that cut what others left come last."""
    cuts = [i for i, p in enumerate(placements) if isinstance(p, Shard)]
    return ([i for i in cuts if not isinstance(placements[i], _StridedShard)]
            + [i for i in cuts if isinstance(placements[i], _StridedShard)])


def chunk_of(size, ways, k):
    """(size, offset) of part k of `ways`: all but the last have the same size, rounded up."""
    full = -(-size // ways)
    offset = min(k * full, size)
    return min(full, size - offset), offset


def chunk_sizes(size, ways):
    """The sizes of all parts."""
    return [chunk_of(size, ways, k)[0] for k in range(ways)]


def compute_local_shape_and_global_offset(global_shape, mesh, placements):
    """(sizes, offsets) of this rank's part of a tensor; of a rank outside the mesh ((0,), ()).

    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.tensor import Shard
    >>> from flambeau.distributed.tensor._utils import compute_local_shape_and_global_offset
    >>> dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    >>> compute_local_shape_and_global_offset((4, 3), dist.init_device_mesh("cpu", (1,)), [Shard(0)])
    ((4, 3), (0, 0))
    >>> dist.destroy_process_group()
    """
    coordinate = mesh.get_coordinate()
    return ((0,), ()) if coordinate is None else extent_at(global_shape, mesh.shape, placements, coordinate)


def extent_at(global_shape, mesh_shape, placements, coordinate):
    """(sizes, offsets) of the part of the rank at a place of the mesh.

    Where a dimension is cut first by a mesh dimension that follows (_StridedShard), the part is still one piece.
    """
    sizes, offsets = list(global_shape), [0] * len(global_shape)
    for i in shard_order(placements):
        dim = placements[i].dim
        whole = sizes[dim]
        sizes[dim], offset = chunk_of(whole, mesh_shape[i], coordinate[i])
        offsets[dim] += offset
    return tuple(sizes), tuple(offsets)


def compute_local_shape(global_shape, mesh, placements):
    """The sizes of this rank's part."""
    return compute_local_shape_and_global_offset(global_shape, mesh, placements)[0]


def checked_placements(placements, mesh, ndim, name):
    """A tuple of one placement for each mesh dimension, with dimensions counted from the front."""
    if placements is None:
        return (Replicate(),) * mesh.ndim
    if isinstance(placements, Placement):
        placements = (placements,)
    placements = tuple(placements)
    for p in placements:
        if not isinstance(p, Placement):
            raise TypeError(f"{name}: placements must be Shard, Replicate or Partial, got {shown(p)}")
    if len(placements) != mesh.ndim:
        raise ValueError(f"{name}: the mesh has {mesh.ndim} dimensions and there are {len(placements)} placements "
                         f"{listed(placements)}; give one for each")
    return tuple(_from_front(p, ndim, name) for p in placements)


def _from_front(placement, ndim, name):
    if not isinstance(placement, Shard):
        return placement
    if ndim is None:
        return placement
    if not ndim:
        raise ValueError(f"{name}: {shown(placement)} cannot cut a tensor without dimensions; use Replicate()")
    dim = wrap_dim(placement.dim, ndim, name)
    if dim == placement.dim:
        return placement
    if isinstance(placement, _StridedShard):
        return _StridedShard(dim, split_factor=placement.split_factor)
    return Shard(dim)
