"""Collectives that return new tensors: torch.distributed._functional_collectives.

They are complete when they return. A group is a ProcessGroup, a DeviceMesh of one dimension, (mesh, dimension), or the
name of a group. The names with `_autograd` have gradients.
"""

import flambeau

from .._absent import refused_class
from .._shown import shown
from . import _autograd as differentiable
from . import _collectives as collectives
from . import _groups
from ._values import ReduceOp

AsyncCollectiveTensor = refused_class("AsyncCollectiveTensor", "collectives are complete when they return, so nothing "
                                      "is waited for")


def _group(group, tag, name):
    if tag:
        raise NotImplementedError(f"{name}: tag {shown(tag)} is not available; give the group itself")
    if isinstance(group, str):
        return _groups._resolve_process_group(group)
    if isinstance(group, tuple):
        return group[0].get_group(group[1])
    if isinstance(group, list):
        raise NotImplementedError(f"{name}: a list of ranks is not available; make a group with new_group(ranks)")
    return _groups.member(group, name)


def _op(text, name):
    found = getattr(ReduceOp, str(text).upper().replace("MEAN", "AVG"), None)
    if not isinstance(found, ReduceOp.RedOpType):
        raise ValueError(f"{name}: reduceOp must be sum, avg, product, min, max, band, bor or bxor, got {shown(text)}")
    return found


def wait_tensor(tensor):
    """The tensor: it has its values already."""
    return tensor


def all_reduce(self, reduceOp, group, tag=""):
    """The reduction of all ranks' tensors."""
    result = self.detach().contiguous().clone()
    collectives.all_reduce(result, _op(reduceOp, "all_reduce"), _group(group, tag, "all_reduce"))
    return result


def all_reduce_coalesced(self, reduceOp, group, tag=""):
    """`all_reduce` of several tensors."""
    return [all_reduce(each, reduceOp, group, tag) for each in self]


def broadcast(self, src, group, tag=""):
    """The tensor of rank `src`."""
    result = self.detach().contiguous().clone()
    collectives.broadcast(result, src, _group(group, tag, "broadcast"))
    return result


def all_gather_tensor(self, gather_dim, group, tag=""):
    """The tensors of all ranks, joined along a dimension."""
    group = _group(group, tag, "all_gather_tensor")
    parts = [flambeau.empty(self.shape, dtype=self.dtype) for _ in range(group.size())]
    collectives.all_gather(parts, self.detach(), group)
    return flambeau.cat(parts, gather_dim)


def all_gather_into_tensor_coalesced(self, group, tag=""):
    """`all_gather_tensor` of several tensors along dimension 0."""
    return [all_gather_tensor(each, 0, group, tag) for each in self]


def _parts(tensor, dim, group, name):
    if tensor.shape[dim] % group.size():
        raise ValueError(f"{name}: dimension {dim} of {list(tensor.shape)} cannot be shared equally by {group.size()} "
                         "ranks; pad it first")
    return list(tensor.chunk(group.size(), dim))


def reduce_scatter_tensor(self, reduceOp, scatter_dim, group, tag=""):
    """This rank's part, along a dimension, of the reduction of all tensors."""
    group = _group(group, tag, "reduce_scatter_tensor")
    parts = _parts(self.detach(), scatter_dim, group, "reduce_scatter_tensor")
    result = flambeau.empty(parts[0].shape, dtype=self.dtype)
    collectives.reduce_scatter(result, parts, _op(reduceOp, "reduce_scatter_tensor"), group)
    return result


def reduce_scatter_tensor_coalesced(inputs, reduceOp, scatter_dim, group, tag=""):
    """`reduce_scatter_tensor` of several tensors, each along its dimension."""
    return [reduce_scatter_tensor(x, reduceOp, dim, group, tag) for x, dim in zip(inputs, scatter_dim, strict=True)]


def _rows_of(self, output_split_sizes):
    rows = self.shape[0] if output_split_sizes is None else sum(output_split_sizes)
    return flambeau.empty((rows, *self.shape[1:]), dtype=self.dtype)


def all_to_all_single(self, output_split_sizes, input_split_sizes, group, tag=""):
    """Rows of all ranks that are for this one."""
    group = _group(group, tag, "all_to_all_single")
    result = _rows_of(self, output_split_sizes)
    collectives.all_to_all_single(result, self.detach(), output_split_sizes, input_split_sizes, group)
    return result


def permute_tensor(self, src_dst, group, tag=""):
    """The tensor of the rank r for which src_dst[r] is this one."""
    group = _group(group, tag, "permute_tensor")
    if sorted(src_dst) != list(range(group.size())):
        raise ValueError(f"permute_tensor: src_dst must name each of {group.size()} ranks once, got {shown(src_dst)}")
    me = group.rank()
    nothing = self.detach().reshape(-1)[:0]
    result = flambeau.empty(self.shape, dtype=self.dtype)
    outputs = [result if src_dst[r] == me else nothing.clone() for r in range(group.size())]
    inputs = [self.detach() if src_dst[me] == r else nothing for r in range(group.size())]
    collectives.all_to_all(outputs, inputs, group)
    return result


# --- with gradients ---------------------------------------------------------------------------------------------------

def all_gather_tensor_autograd(self, gather_dim, group, tag=""):
    """`all_gather_tensor` with gradients."""
    return flambeau.cat(differentiable.all_gather(self, _group(group, tag, "all_gather_tensor_autograd")), gather_dim)


def reduce_scatter_tensor_autograd(self, reduceOp, scatter_dim, group, tag=""):
    """`reduce_scatter_tensor` with gradients: of a sum or a mean."""
    name = "reduce_scatter_tensor_autograd"
    group, op = _group(group, tag, name), _op(reduceOp, name)
    if op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise NotImplementedError(f"{name}: gradients of {op.name} are not available; use sum or avg")
    parts = _parts(self, scatter_dim, group, name)
    found = differentiable.reduce_scatter(flambeau.empty(parts[0].shape, dtype=self.dtype), parts, ReduceOp.SUM, group)
    return found / group.size() if op is ReduceOp.AVG else found


def all_to_all_single_autograd(self, output_split_sizes, input_split_sizes, group, tag=""):
    """`all_to_all_single` with gradients."""
    group = _group(group, tag, "all_to_all_single_autograd")
    result = _rows_of(self, output_split_sizes)
    return differentiable.all_to_all_single(result, self, output_split_sizes, input_split_sizes, group)
