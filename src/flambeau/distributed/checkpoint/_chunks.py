"""Which box of a whole tensor this process holds, and how boxes meet: all that a checkpoint knows of distribution."""

from dataclasses import dataclass

import flambeau

from ..._shown import shown
from ..tensor import DTensor
from ..tensor._utils import compute_local_shape_and_global_offset
from .metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties, TensorStorageMetadata
from .planner import LoadItemType, ReadItem


@dataclass
class Held:
    """What this process has of a tensor: its values, the box of the whole they are, and the whole's size."""

    local: flambeau.Tensor
    chunk: ChunkStorageMetadata
    size: flambeau.Size
    is_part: bool


#: in place of a tensor that lies on other processes only
NOWHERE = Held(None, None, None, True)


def is_stored_as_tensor(value):
    """Whether a value is stored element by element, so that it can be cut anew. Others are stored as `save` does."""
    if isinstance(value, Held):
        return True
    return isinstance(value, flambeau.Tensor) and value.layout is flambeau.strided and not value.is_quantized


def whole(value):
    """The chunk that is all of a tensor."""
    return ChunkStorageMetadata(flambeau.Size([0] * value.dim()), value.size())


def held(name, value):
    """The Held of a tensor, or of its Held; None where the tensor lies on other processes only."""
    if isinstance(value, Held):
        return value if value.local is not None else None
    if not isinstance(value, DTensor):
        return Held(value.detach(), whole(value), value.size(), False)
    if value.device_mesh.get_coordinate() is None:
        return None
    if any(placement.is_partial() for placement in value.placements):
        raise ValueError(f"checkpoint: {shown(name)} has parts that are not added up yet; redistribute it to "
                         "Replicate() or Shard(…)")
    sizes, offsets = compute_local_shape_and_global_offset(value.shape, value.device_mesh, value.placements)
    box = ChunkStorageMetadata(flambeau.Size(offsets), flambeau.Size(sizes))
    return Held(value._local_tensor.detach(), box, value.size(), True)


def properties_of(found):
    """The TensorProperties that the checkpoint tells of a Held."""
    return TensorProperties.create_from_tensor(found.local)


def within(tensor, offsets, lengths):
    """The box of a tensor as a view."""
    for dim, (start, length) in enumerate(zip(offsets, lengths)):
        if start or length != tensor.shape[dim]:
            tensor = tensor.narrow(dim, start, length)
    return tensor


def common(one, other):
    """Where two chunks meet: (offsets in the one, offsets in the other, lengths); None where they do not."""
    starts = [max(a, b) for a, b in zip(one.offsets, other.offsets)]
    ends = [min(a + n, b + m) for a, n, b, m in zip(one.offsets, one.sizes, other.offsets, other.sizes)]
    lengths = [end - start for start, end in zip(starts, ends)]
    if any(length <= 0 for length in lengths):
        return None
    return ([start - first for start, first in zip(starts, one.offsets)],
            [start - first for start, first in zip(starts, other.offsets)], lengths)


def create_read_items_for_chunk_list(fqn, checkpoint_md, local_chunks):
    """The ReadItems that fill these chunks of a tensor from the chunks that the checkpoint has of it."""
    items = []
    for k, mine in enumerate(local_chunks):
        for j, stored in enumerate(checkpoint_md.chunks):
            found = common(mine, stored)
            if found is None:
                continue
            to, start, lengths = map(flambeau.Size, found)
            items.append(ReadItem(LoadItemType.TENSOR, MetadataIndex(fqn, mine.offsets, k), to,
                                  MetadataIndex(fqn, stored.offsets, j), start, lengths))
    return items


def problems(name, stored, complete):
    """What is wrong with the chunks of a tensor: texts; with `complete`, also that they do not cover it."""
    if not isinstance(stored, TensorStorageMetadata) or not stored.size:
        return []
    found = [f"{name}: the chunk at {tuple(c.offsets)} of size {tuple(c.sizes)} lies outside of {tuple(stored.size)}"
             for c in stored.chunks if any(a < 0 or n < 0 or a + n > m
                                           for a, n, m in zip(c.offsets, c.sizes, stored.size))]
    covered = sum(c.sizes.numel() for c in stored.chunks)
    if complete and covered != stored.size.numel():
        found.append(f"{name}: its chunks have {covered} elements, expected {stored.size.numel()}")
    return found + _overlaps(name, stored.chunks)


def _overlaps(name, chunks):
    """Chunks that meet, looked for among those that begin before another one ends in the first dimension."""
    found, open_ones = [], []
    for chunk in sorted(chunks, key=lambda c: tuple(c.offsets)):
        open_ones = [c for c in open_ones if c.offsets[0] + c.sizes[0] > chunk.offsets[0]]
        found += [f"{name}: the chunks at {tuple(c.offsets)} and {tuple(chunk.offsets)} overlap" for c in open_ones
                  if common(c, chunk)]
        open_ones.append(chunk)
    return found
