"""One parameter of which each rank keeps a part, and which is whole while its module computes."""

import math
import weakref

import flambeau

from ...nn import Parameter
from ..tensor import DTensor, Replicate, Shard
from ..tensor._dtensor_spec import DTensorSpec, TensorMeta, strides_of
from ..tensor._redistribute import redistributed
from ..tensor._utils import chunk_of, chunk_sizes
from ..tensor.placement_types import _StridedShard


class ShardedParameter:
    """A parameter in both its forms: `sharded`, a DTensor, and `full`, a plain tensor (of tensor parallel layers a
    DTensor on the mesh of those). `homes` are the (module, name) where it is registered.

    What a module computes with are `given` tensors over the memory of `full`, new ones for each forward. Autograd keeps
    these tensors themselves, so that they can lose their values after forward and get them back for backward.
    """

    def __init__(self, param, homes, name, mesh, dim):
        self.homes, self.name, self.mesh, self.dim = homes, name, mesh, dim
        self.original = weakref.ref(param)
        self.group, self.ways = mesh.get_group(mesh.ndim - 1), mesh.shape[-1]
        self.inner = param._spec if isinstance(param, DTensor) else None
        value = param.detach()
        local = value._local_tensor if self.inner else value
        self.shape, self.dtype = tuple(local.shape), local.dtype
        size, offset = chunk_of(self.shape[dim], self.ways, mesh.get_local_rank(mesh.ndim - 1))
        part = local.narrow(dim, offset, size).clone(memory_format=flambeau.contiguous_format)
        self.sharded = Parameter(DTensor(part, self._spec(tuple(value.shape)), requires_grad=False),
                                 requires_grad=param.requires_grad)
        self.sharded.__dict__.update({key: kept for key, kept in param.__dict__.items()
                                      if not key.startswith(("_spec", "_local_tensor", "_copied_from"))})
        self.full, self.given, self.accumulated = None, [], None
        self.register(self.sharded)

    def _spec(self, shape):
        """How the sharded form lies: along the data parallel dimensions, and then along those of the inner mesh."""
        ours = [Replicate()] * (self.mesh.ndim - 1)
        meta = TensorMeta(shape, strides_of(shape), self.dtype)
        if self.inner is None:
            return DTensorSpec(self.mesh, [*ours, Shard(self.dim)], meta)
        inner, ways = self.inner, 1
        for size, p in zip(inner.mesh.shape, inner.placements):
            ways *= size if p.is_shard(self.dim) else 1
        own = Shard(self.dim) if ways == 1 else _StridedShard(self.dim, split_factor=ways)
        return DTensorSpec(joined_mesh(self.mesh, inner.mesh), [*ours, own, *inner.placements], meta)

    # --- where it is registered ---------------------------------------------------------------------------------------

    def register(self, param):
        """Puts one of the forms into the modules."""
        for module, name in self.homes:
            module._parameters[name] = param

    def refresh(self):
        """Takes over what a program has put into the module: `to_empty()`, loading with assign=True."""
        module, name = self.homes[0]
        now = module._parameters[name]
        self.dtype = self.sharded._local_tensor.dtype  # .double() and its kind leave the parameter the same object
        if now is self.sharded or any(now is each() for each in self.given):
            return
        if not isinstance(now, DTensor) or now.placements != self.sharded.placements:
            raise RuntimeError(f"fully_shard: the parameter {self.name} was replaced by one that is not spread as it "
                               "was; call fully_shard after such changes, or put in a DTensor of the same placements")
        self.sharded, self.full, self.given = now, None, []
        self.dtype = now._local_tensor.dtype
        self.register(now)

    # --- becoming whole -----------------------------------------------------------------------------------------------

    @property
    def chunk(self):
        """The shape of all parts but the last."""
        return self._chunk(self.ways)

    def _chunk(self, ways):
        return tuple(chunk_sizes(n, ways)[0] if d == self.dim else n for d, n in enumerate(self.shape))

    @property
    def chunk_numel(self):
        """How many elements the parts have."""
        return math.prod(self.chunk)

    def sent_bytes(self, dtype, ways):
        """How many bytes each of so many ranks sends."""
        return math.prod(self._chunk(ways)) * self._gathered_dtype(dtype).itemsize

    def _gathered_dtype(self, dtype):
        return self.dtype if dtype is None or not self.dtype.is_floating_point else dtype

    def padded(self, tensor, ways=None):
        """A part, filled up to the shape that all parts have."""
        chunk = self._chunk(ways or self.ways)
        if tuple(tensor.shape) == chunk:
            return tensor
        full = tensor.new_zeros(chunk)
        full.narrow(self.dim, 0, tensor.shape[self.dim]).copy_(tensor)
        return full

    def sent(self, dtype):
        """What the others get from this rank: a flat tensor of bytes."""
        local = self.sharded._local_tensor.detach()
        local = local.to(self._gathered_dtype(dtype))
        if local.device.type == "meta":
            raise RuntimeError(f"fully_shard: the parameter {self.name} is on the meta device; call "
                               "to_empty(device=\"cpu\") and initialize the model first")
        return self.padded(local).contiguous().view(-1).view(flambeau.uint8)

    def kept(self, rank, ways):
        """Part `rank` of `ways` of the whole values: a flat tensor of bytes."""
        local = self.full._local_tensor if self.inner is not None else self.full
        size, offset = chunk_of(self.shape[self.dim], ways, rank)
        part = self.padded(local.narrow(self.dim, offset, size), ways)
        return part.contiguous().view(-1).view(flambeau.uint8)

    def received(self, rows, dtype):
        """Becomes whole, of the bytes of all ranks that have parts: [ranks, bytes]."""
        ways, chunk = len(rows), self._chunk(len(rows))
        parts = rows.contiguous().view(-1).view(self._gathered_dtype(dtype)).view(ways, *chunk)
        if self.dim == 0:
            full = parts.view(ways * chunk[0], *chunk[1:])
        else:
            full = flambeau.cat(parts.unbind(0), self.dim)
        self.set_whole(full.narrow(self.dim, 0, self.shape[self.dim]).contiguous())

    def set_whole(self, full):
        """The parameter has values again, and so have the tensors that autograd has kept of it."""
        if self.inner is not None:
            meta = TensorMeta(self.inner.shape, tuple(self.inner.stride), full.dtype)
            full = DTensor(full, DTensorSpec(self.inner.mesh, self.inner.placements, meta), requires_grad=False)
        self.full = full
        self._fill(full)

    def give(self, whole):
        """Registers a tensor over the gathered values, which follows them when they go and come."""
        self.given = [each for each in self.given if each() is not None]
        self.given.append(weakref.ref(whole))
        self.register(whole)

    def give_again(self):
        """Registers what the last forward has computed with, for a part of it that is computed again in backward."""
        whole = self.given[-1]() if self.given else None
        if whole is None:  # checkpointing keeps nothing: what it computes again needs the values alone
            whole = self.full.detach().requires_grad_(self.sharded.requires_grad)
        self.give(whole)

    def release(self):
        """Forgets the values: what autograd has kept are tensors that will be filled again."""
        self.refresh()
        self.register(self.sharded)
        if self.full is None:
            return
        local = self.full._local_tensor if self.inner is not None else self.full
        nothing = flambeau.empty((1,) * len(self.shape), dtype=local.dtype).expand(self.shape)
        self.full = None
        self._fill(nothing)

    def _fill(self, values):
        for each in self.given:
            whole = each()
            if whole is None:
                continue
            if self.inner is not None:
                whole._local_tensor = values._local_tensor if isinstance(values, DTensor) else values
            else:
                whole.data = values

    # --- gradients ----------------------------------------------------------------------------------------------------

    def keep_gradient(self, grad, dtype):
        """Adds a gradient of the whole to what waits to be reduced, in this dtype."""
        if self.inner is not None:
            if not isinstance(grad, DTensor):
                raise RuntimeError(f"fully_shard: the gradient of {self.name} is no DTensor, and the parameter is one")
            local = redistributed(grad._local_tensor, grad._spec, self.inner.placements)
        elif isinstance(grad, DTensor):
            raise RuntimeError(f"fully_shard: the gradient of {self.name} is a DTensor, and the parameter is none")
        else:
            local = grad
        local = local if dtype is None else local.to(dtype)
        self.accumulated = local if self.accumulated is None else self.accumulated + local

    def split(self, grad):
        """The gradient as [ranks, elements], all parts padded to one size."""
        sizes = chunk_sizes(self.shape[self.dim], self.ways)
        return flambeau.stack([self.padded(part).reshape(-1) for part in grad.split(sizes, self.dim)])

    def add_gradient(self, flat):
        """This rank's part of the reduced gradient goes to the sharded form."""
        local = self.sharded._local_tensor
        part = flat.view(self.chunk).narrow(self.dim, 0, local.shape[self.dim])
        part = part.to(local.dtype).contiguous()
        if self.sharded.grad is None:
            self.sharded.grad = DTensor(part.clone(), self.sharded._spec, requires_grad=False)
        else:
            self.sharded.grad._local_tensor.add_(part)


def joined_mesh(outer, inner):
    """The mesh of the dimensions of two meshes that are parts of one."""
    root = outer._root or outer
    if (inner._root or inner) is not root or root.mesh_dim_names is None:
        raise ValueError("fully_shard: its mesh and that of the tensor parallel parameters must be parts of one mesh "
                         "with names, as mesh[\"dp\"] and mesh[\"tp\"] of init_device_mesh(…, mesh_dim_names=…)")
    return root[(*outer.mesh_dim_names, *inner.mesh_dim_names)]
