"""DTensor: one tensor of which every rank of a mesh has a part, and the functions that make it."""

import flambeau

from ... import _C
from ..._shown import listed, shown
from ..._tensor.overriding import disable_torch_function
from ...autograd import Function
from ...autograd import backward as run_backward
from .. import _collectives as collectives
from ..device_mesh import DeviceMesh, _current_mesh
from . import _handlers as _handlers
from ._call import check_mixed
from ._dispatch import dispatch
from ._dtensor_spec import DTensorSpec, TensorMeta, strides_of
from ._inplace import needs_old_values, written_over
from ._redistribute import part_of, redistributed
from ._utils import checked_placements, chunk_of, chunk_sizes, shard_order
from .placement_types import Partial, Replicate, Shard


class DTensor(_C.Tensor):
    """A tensor spread over a mesh of ranks. Operators compute on the parts and exchange what they need.

    Made by `distribute_tensor`, `DTensor.from_local`, or `zeros` and its kind. `shape` is that of the whole.

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.tensor import DTensor, Shard, distribute_tensor
    >>> dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    >>> mesh = dist.init_device_mesh("cpu", (1,))
    >>> x = distribute_tensor(flambeau.arange(4.0), mesh, [Shard(0)])
    >>> (x * 2).full_tensor(), x.placements
    (tensor([0., 2., 4., 6.]), (Shard(dim=0),))
    >>> dist.destroy_process_group()
    """

    @staticmethod
    def __new__(cls, local_tensor, spec, *, requires_grad):
        meta = spec.tensor_meta
        made = _C.Tensor._make_wrapper_subclass(cls, tuple(meta.shape), strides=tuple(meta.stride), dtype=meta.dtype,
                                                device=local_tensor.device, requires_grad=requires_grad)
        made._spec, made._local_tensor = spec, local_tensor
        return made

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        check_mixed(DTensor, func, args, kwargs)
        with disable_torch_function():
            if _C.is_grad_enabled() and needs_old_values(func, args, kwargs):
                return written_over(func, args, kwargs)
            return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return dispatch(DTensor, func, args, kwargs or {})

    def __repr__(self, *, tensor_contents=None):
        return f"DTensor(local_tensor={self._local_tensor}, device_mesh={self.device_mesh}, " \
               f"placements={self.placements})"

    # --- asking -------------------------------------------------------------------------------------------------------

    @property
    def device_mesh(self):
        """The mesh that it is spread over."""
        return self._spec.mesh

    @property
    def placements(self):
        """How it lies along each dimension of the mesh."""
        return self._spec.placements

    @property
    def data(self):
        """The same memory without history; setting it takes over the part and the placements of another DTensor."""
        return self.detach()

    @data.setter
    def data(self, other):
        if not isinstance(other, DTensor):
            raise TypeError(f"DTensor.data: expected a DTensor, got {type(other).__name__}; distribute_tensor makes "
                            "one")
        if other.shape != self.shape or other.dtype is not self.dtype:
            raise RuntimeError(f"DTensor.data: expected {list(self.shape)} {self.dtype}, got {list(other.shape)} "
                               f"{other.dtype}; make a new parameter of it")
        self._spec, self._local_tensor = other._spec, other._local_tensor

    # --- from and to local parts --------------------------------------------------------------------------------------

    @staticmethod
    def from_local(local_tensor, device_mesh=None, placements=None, *, run_check=False, shape=None, stride=None):
        """The DTensor of which each rank gives its part; gradients go back to the parts.

        Without `shape` all parts count as equally large. run_check: replicated parts are made those of the first rank,
        and all ranks are asked whether their shapes fit.
        """
        if not isinstance(local_tensor, _C.Tensor) or isinstance(local_tensor, DTensor):
            raise RuntimeError(f"DTensor.from_local: expected a plain tensor, got a {type(local_tensor).__name__}")
        if (shape is None) != (stride is None):
            raise RuntimeError("DTensor.from_local: shape and stride must be given together, or neither")
        mesh = _mesh(device_mesh, "DTensor.from_local")
        placements = checked_placements(placements, mesh, local_tensor.ndim, "DTensor.from_local")
        return _FromLocal.apply(local_tensor, mesh, placements, run_check, shape, stride)

    def to_local(self, *, grad_placements=None):
        """This rank's part, as a plain tensor. grad_placements: how the gradients by the parts are spread."""
        if grad_placements is not None:
            grad_placements = checked_placements(grad_placements, self.device_mesh, self.ndim, "DTensor.to_local")
        return _ToLocal.apply(self, grad_placements)

    def full_tensor(self, *, grad_placements=None):
        """The whole tensor on every rank, as a plain tensor."""
        whole = self.redistribute(placements=[Replicate()] * self.device_mesh.ndim)
        return whole.to_local(grad_placements=grad_placements)

    def redistribute(self, device_mesh=None, placements=None, *, async_op=False, forward_dtype=None,
                     backward_dtype=None):
        """The same tensor, spread in another way; its gradient comes back in the old one.

        forward_dtype and backward_dtype: in which dtype the tensor, and its gradient, are exchanged. async_op: it may
        go on afterwards; it is over when the call returns.
        """
        if device_mesh is not None and device_mesh != self.device_mesh:
            raise NotImplementedError("DTensor.redistribute: another mesh is not available; take full_tensor() and "
                                      "distribute it there")
        if placements is None:
            raise RuntimeError("DTensor.redistribute: placements must be given, one for each mesh dimension")
        placements = checked_placements(placements, self.device_mesh, self.ndim, "DTensor.redistribute")
        return _Redistribute.apply(self, placements, forward_dtype, backward_dtype)

    # --- what native code would do on memory --------------------------------------------------------------------------

    def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
        """As of any tensor."""
        run_backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def _own_part(self):
        """This rank's part, as the same memory: an optimizer writes to it."""
        return self._local_tensor.detach()

    def _own_like(self, other):
        """The same values, spread as another tensor is."""
        if self.placements == other.placements:
            return self
        local = redistributed(self._local_tensor, self._spec, other.placements)
        return DTensor(local, self._spec.with_placements(other.placements), requires_grad=False)

    def _own_spread(self, whole):
        """A plain tensor that every rank has, spread as this one is."""
        return distribute_tensor(whole.detach(), self.device_mesh, self.placements, src_data_rank=None)

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        made = DTensor(self._local_tensor.detach().clone(), self._spec, requires_grad=self.requires_grad)
        memo[id(self)] = made
        for name, value in self.__dict__.items():
            if name not in ("_spec", "_local_tensor", "_copied_from"):
                setattr(made, name, value)
        if self.grad is not None:
            made.grad = self.grad.__deepcopy__(memo)
        return made

    def __reduce_ex__(self, protocol):
        raise NotImplementedError("DTensor: a part of a spread tensor cannot be pickled or saved by itself; save "
                                  "full_tensor(), or all parts with distributed.checkpoint")


def _mesh(device_mesh, name):
    device_mesh = _current_mesh() if device_mesh is None else device_mesh
    if device_mesh is None:
        raise ValueError(f"{name}: device_mesh must be given, or made current by `with mesh:`; make one with "
                         "distributed.init_device_mesh")
    if not isinstance(device_mesh, DeviceMesh):
        raise TypeError(f"{name}: device_mesh must be a DeviceMesh, got {shown(device_mesh)}")
    return device_mesh


class _FromLocal(Function):
    @staticmethod
    def forward(ctx, local, mesh, placements, run_check, shape, stride):
        ctx.placements, ctx.mesh = placements, mesh
        if shape is None:
            shape = list(local.shape)
            for i, p in enumerate(placements):
                if isinstance(p, Shard):
                    shape[p.dim] *= mesh.shape[i]
            stride = strides_of(shape)
        local = local.detach()
        if run_check:
            local = _checked_parts(local, mesh, placements)
        spec = DTensorSpec(mesh, placements, TensorMeta(tuple(shape), tuple(stride), local.dtype))
        if mesh.get_coordinate() is not None and tuple(local.shape) != spec.extent()[0]:
            raise ValueError(f"DTensor.from_local: this rank's part of {list(shape)} {listed(placements)} must be "
                             f"{list(spec.extent()[0])}, got {list(local.shape)}; parts are cut as chunk() cuts")
        return DTensor(local, spec, requires_grad=False)

    @staticmethod
    def backward(ctx, grad):
        placements = tuple(Replicate() if isinstance(p, Partial) else p for p in ctx.placements)
        if grad.placements != placements:
            grad = grad.redistribute(placements=placements)
        return grad.to_local(), None, None, None, None, None


def _checked_parts(local, mesh, placements):
    if mesh.get_coordinate() is None:
        return local
    for i, p in enumerate(placements):
        group = mesh.get_group(i)
        if isinstance(p, Replicate):
            local = local.contiguous().clone()
            collectives.broadcast(local, group=group, group_src=0)
        sizes = flambeau.tensor([*local.shape, *(-n for n in local.shape)])
        largest = sizes.clone()
        collectives.all_reduce(largest, flambeau.distributed.ReduceOp.MAX, group)
        if not flambeau.equal(sizes, largest):
            raise ValueError(f"DTensor.from_local: this rank's part is {list(local.shape)}, and others differ; give "
                             "the whole shape and stride for parts of different sizes")
    return local


class _ToLocal(Function):
    @staticmethod
    def forward(ctx, x, grad_placements):
        ctx.spec, ctx.grad_placements = x._spec, grad_placements
        return x._local_tensor.detach()

    @staticmethod
    def backward(ctx, grad):
        spec = ctx.spec
        placements = ctx.grad_placements or spec.without_partial()
        shape = tuple(spec.tensor_meta.shape)
        return DTensor.from_local(grad, spec.mesh, placements, shape=shape, stride=strides_of(shape)), None


class _Redistribute(Function):
    @staticmethod
    def forward(ctx, x, placements, forward_dtype, backward_dtype):
        spec = x._spec
        ctx.spec, ctx.dtype = spec, backward_dtype
        local = x._local_tensor
        if forward_dtype is not None and forward_dtype is not local.dtype:
            local = local.to(forward_dtype)
        local = redistributed(local, spec, placements)
        meta = TensorMeta(spec.tensor_meta.shape, spec.tensor_meta.stride, local.dtype)
        return DTensor(local.detach(), DTensorSpec(spec.mesh, placements, meta), requires_grad=False)

    @staticmethod
    def backward(ctx, grad):
        """A part of a sum in forward is a whole tensor in backward: all parts have the same gradient."""
        backward_dtype, before = ctx.dtype, ctx.spec.placements
        target = tuple(now if isinstance(p, Partial) and isinstance(now, Replicate)
                       else Replicate() if isinstance(p, Partial) else p for p, now in zip(before, grad.placements))
        if backward_dtype is not None and grad.dtype is not backward_dtype:
            grad = grad.to(backward_dtype)
        if grad.placements != target:
            grad = grad.redistribute(placements=target)
        dtype = ctx.spec.tensor_meta.dtype
        return grad.to(dtype) if grad.dtype is not dtype else grad, None, None, None


# --- making them ------------------------------------------------------------------------------------------------------

def distribute_tensor(tensor, device_mesh=None, placements=None, *, src_data_rank=0):
    """A plain tensor as a DTensor: the values are those of the first rank along each mesh dimension.

    src_data_rank: which rank's values count; None: every rank has them already, and nothing is sent.
    """
    mesh = _mesh(device_mesh, "distribute_tensor")
    if isinstance(tensor, DTensor):
        if tensor.device_mesh != mesh or tensor.placements != checked_placements(
                placements, mesh, tensor.ndim, "distribute_tensor"):
            raise ValueError(f"distribute_tensor: the tensor is a DTensor {listed(tensor.placements)} already; use "
                             "its redistribute()")
        return tensor
    if not tensor.is_leaf:
        raise RuntimeError("distribute_tensor: the tensor was computed from others, and gradients would not reach "
                           "them; use DTensor.from_local, which has gradients")
    placements = checked_placements(placements, mesh, tensor.ndim, "distribute_tensor")
    local = tensor.detach()
    if mesh.get_coordinate() is None:
        local = local.new_empty((0,))
    elif local.device.type == "meta":
        size = DTensorSpec(mesh, placements, TensorMeta(tuple(tensor.shape), (), None)).extent()[0]
        local = local.new_empty(size)
    else:
        local = _distributed(local, mesh, placements, src_data_rank)
    spec = DTensorSpec(mesh, placements, TensorMeta(tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype))
    return DTensor(local, spec, requires_grad=tensor.requires_grad)


def _distributed(local, mesh, placements, source):
    order = shard_order(placements)
    own = local
    for i in [i for i in range(mesh.ndim) if i not in order] + order:
        group, p = mesh.get_group(i), placements[i]
        if isinstance(p, Shard):
            local = part_of(local, p.dim, group.size(), mesh.get_coordinate()[i]) if source is None else \
                _scattered(local, p.dim, group, source)
        elif isinstance(p, Partial):
            local = redistributed(local, DTensorSpec(mesh, [Replicate()] * mesh.ndim), [
                p if j == i else Replicate() for j in range(mesh.ndim)])
        elif source is not None:
            local = local.contiguous().clone() if local is own else local
            collectives.broadcast(local, group=group, group_src=source)
    return local.clone() if local is own else local


def _scattered(local, dim, group, source):
    """This rank's part of the source's tensor; all parts are padded to one size for the way."""
    sizes = chunk_sizes(local.shape[dim], group.size())
    shape = (*local.shape[:dim], sizes[0], *local.shape[dim + 1:])
    parts = None
    if group.rank() == source:
        parts = []
        for part in local.split(sizes, dim):
            whole = local.new_zeros(shape)
            whole.narrow(dim, 0, part.shape[dim]).copy_(part)
            parts.append(whole)
    result = local.new_empty(shape)
    collectives.scatter(result, parts, group=group, group_src=source)
    size = chunk_of(local.shape[dim], group.size(), group.rank())[0]
    return result if size == sizes[0] else result.narrow(dim, 0, size).contiguous()


def distribute_module(module, device_mesh=None, partition_fn=None, input_fn=None, output_fn=None):
    """Turns the parameters and buffers of a module into DTensors, in place; those that are left are replicated.

    partition_fn(name, submodule, mesh) distributes those of each submodule. input_fn(module, inputs, mesh) and
    output_fn(module, outputs, mesh) change what goes into the module and what comes out.
    """
    mesh = _mesh(device_mesh, "distribute_module")
    if getattr(module, "_distribute_module_applied", False):
        raise RuntimeError("distribute_module: this module is distributed already; call it once, on the whole module")
    for name, part in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, part, mesh)
        _replicate(part, mesh)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda _, inputs: input_fn(module, inputs, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda _, inputs, outputs: output_fn(module, outputs, mesh))
    module._distribute_module_applied = True
    return module


def _replicate(module, mesh):
    whole = [Replicate()] * mesh.ndim
    for key, param in list(module._parameters.items()):
        if param is not None and not isinstance(param, DTensor):
            made = distribute_tensor(param.detach(), mesh, whole)
            module.register_parameter(key, flambeau.nn.Parameter(made, requires_grad=param.requires_grad))
    for key, buffer in list(module._buffers.items()):
        if buffer is not None and not isinstance(buffer, DTensor):
            module._buffers[key] = distribute_tensor(buffer, mesh, whole)
