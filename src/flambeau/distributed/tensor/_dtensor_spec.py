"""DTensorSpec: a mesh, a placement for each of its dimensions, and the whole tensor's shape, strides and dtype."""

from typing import NamedTuple

import flambeau

from ._utils import compute_local_shape_and_global_offset
from .placement_types import Partial, Replicate, Shard


class TensorMeta(NamedTuple):
    """What is known of a tensor without its values."""

    shape: tuple
    stride: tuple
    dtype: object


class DTensorSpec:
    """How a tensor is spread over a mesh."""

    __slots__ = ("_key", "mesh", "placements", "tensor_meta")

    def __init__(self, mesh, placements, tensor_meta=None):
        self.mesh, self.placements, self.tensor_meta = mesh, tuple(placements), tensor_meta
        self._key = None

    @property
    def device_mesh(self):
        """The mesh."""
        return self.mesh

    @property
    def shape(self):
        """The whole tensor's shape."""
        return flambeau.Size(self.tensor_meta.shape)

    @property
    def stride(self):
        """The whole tensor's strides."""
        return self.tensor_meta.stride

    @property
    def ndim(self):
        """How many dimensions the tensor has."""
        return len(self.tensor_meta.shape)

    @property
    def key(self):
        """What decisions about the tensor depend on; hashable."""
        if self._key is None:
            self._key = (id(self.mesh), self.placements, tuple(self.tensor_meta.shape), tuple(self.tensor_meta.stride),
                         self.tensor_meta.dtype)
        return self._key

    def extent(self):
        """(sizes, offsets) of this rank's part."""
        return compute_local_shape_and_global_offset(self.tensor_meta.shape, self.mesh, self.placements)

    def is_replicated(self):
        """Whether every rank has the whole tensor."""
        return all(isinstance(p, Replicate) for p in self.placements)

    def is_sharded(self):
        """Whether it is cut along some mesh dimension."""
        return any(isinstance(p, Shard) for p in self.placements)

    def with_placements(self, placements):
        """The same tensor, spread in another way."""
        return DTensorSpec(self.mesh, placements, self.tensor_meta)

    def without_partial(self):
        """The same with Replicate in place of Partial: how gradients by local parts are spread."""
        return tuple(Replicate() if isinstance(p, Partial) else p for p in self.placements)

    def __eq__(self, other):
        return isinstance(other, DTensorSpec) and (self.mesh, self.placements, self.tensor_meta) == (
            other.mesh, other.placements, other.tensor_meta)

    def __hash__(self):
        return hash((self.mesh, self.placements, self.tensor_meta))

    def __repr__(self):
        spread = ", ".join(map(str, self.placements))
        return f"DTensorSpec(({spread}) on {list(self.tensor_meta.shape)})"


def strides_of(shape):
    """The strides of a dense tensor."""
    strides, step = [0] * len(shape), 1
    for k in reversed(range(len(shape))):
        strides[k], step = step, step * max(shape[k], 1)
    return tuple(strides)
