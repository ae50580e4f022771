"""Collectives through which gradients go: each returns new tensors, and its backward is another collective."""

import flambeau

from ..autograd import Function
from . import _collectives as collectives
from ._groups import member
from ._values import ReduceOp


def _fresh(x):
    return flambeau.empty(x.shape, dtype=x.dtype)


class _AllReduce(Function):
    @staticmethod
    def forward(ctx, op, group, x):
        ctx.op, ctx.group = op, group
        y = x.contiguous().clone()
        collectives.all_reduce(y, op, group)
        return y

    @staticmethod
    def backward(ctx, grad):
        return None, None, _AllReduce.apply(ctx.op, ctx.group, grad)


class _Broadcast(Function):
    @staticmethod
    def forward(ctx, root, group, x):
        ctx.root, ctx.group = root, group
        y = x.contiguous().clone()
        collectives.broadcast(y, group=group, group_src=root)
        return y

    @staticmethod
    def backward(ctx, grad):
        return None, None, _Reduce.apply(ctx.root, ReduceOp.SUM, ctx.group, grad, True)


class _Reduce(Function):
    @staticmethod
    def forward(ctx, root, op, group, x, zero=False):
        ctx.root, ctx.group = root, group
        y = x.contiguous().clone()
        collectives.reduce(y, op=op, group=group, group_dst=root)
        return y.zero_() if zero and group.rank() != root else y

    @staticmethod
    def backward(ctx, grad):
        return None, None, None, _Broadcast.apply(ctx.root, ctx.group, grad), None


class _AllToAll(Function):
    """Of lists of tensors: the sizes of what comes are known beforehand."""

    @staticmethod
    def forward(ctx, group, shapes, *inputs):
        ctx.group, ctx.shapes = group, [x.shape for x in inputs]
        outputs = [flambeau.empty(shape, dtype=inputs[0].dtype) for shape in shapes]
        collectives.all_to_all(outputs, [x.contiguous() for x in inputs], group)
        return tuple(outputs)

    @staticmethod
    def backward(ctx, *grads):
        return None, None, *_AllToAll.apply(ctx.group, ctx.shapes, *grads)


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx, op, group, *inputs):
        ctx.group = group
        output = _fresh(inputs[group.rank()])
        collectives.reduce_scatter(output, [x.contiguous() for x in inputs], op, group)
        return output

    @staticmethod
    def backward(ctx, grad):
        return None, None, *_AllToAll.apply(ctx.group, [grad.shape] * ctx.group.size(), *[grad] * ctx.group.size())


def _known(group, name):
    found = member(group, name)
    if found is None:
        raise ValueError(f"{name}: this process is not in the group, so there is no result")
    return found


def all_reduce(tensor, op=ReduceOp.SUM, group=None):
    """The sum of the tensors of all ranks; its gradient is summed, too."""
    return _AllReduce.apply(op, _known(group, "all_reduce"), tensor)


def broadcast(tensor, src, group=None):
    """The tensor of rank `src`; its gradient is the sum of all ranks'."""
    group = _known(group, "broadcast")
    return _Broadcast.apply(group.place_of(src, "broadcast"), group, tensor)


def reduce(tensor, dst, op=ReduceOp.SUM, group=None):
    """On rank `dst`, the sum of all tensors."""
    group = _known(group, "reduce")
    return _Reduce.apply(group.place_of(dst, "reduce"), op, group, tensor)


def all_gather(tensor, group=None):
    """The tensors of all ranks, which have the same shape, as a tuple; gradients go back to where they came from."""
    group = _known(group, "all_gather")
    return _AllToAll.apply(group, [tensor.shape] * group.size(), *[tensor] * group.size())


def gather(tensor, dst=0, group=None):
    """On rank `dst`, the tensors of all ranks; zeros on others."""
    group = _known(group, "gather")
    root, nothing = group.place_of(dst, "gather"), tensor.reshape(-1)[:0]
    here = group.rank() == root
    found = _AllToAll.apply(group, [tensor.shape if here else nothing.shape] * group.size(),
                            *(tensor if r == root else nothing for r in range(group.size())))
    return found if here else tuple(flambeau.zeros_like(tensor) + empty.sum() for empty in found)


def scatter(tensors, src=0, group=None):
    """Tensor r of rank `src` on rank r; all ranks give a list, of which only that one's values count."""
    group = _known(group, "scatter")
    root = group.place_of(src, "scatter")
    here = group.rank() == root
    nothing = [x.reshape(-1)[:0] for x in tensors]  # part of the graph: all ranks go backward
    shapes = [tensors[group.rank()].shape if r == root else (0,) for r in range(group.size())]
    return _AllToAll.apply(group, shapes, *(tensors if here else nothing))[root]


def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None):
    """The sum of all ranks' `input_list[this rank]`, which is also put into `output`."""
    found = _ReduceScatter.apply(op, _known(group, "reduce_scatter"), *input_list)
    output.detach().copy_(found.detach())
    return found


def all_to_all(output_tensor_list, input_tensor_list, group=None):
    """Tensor `this rank` of every rank's inputs, as a tuple; they are also put into the outputs."""
    found = _AllToAll.apply(_known(group, "all_to_all"), [x.shape for x in output_tensor_list], *input_tensor_list)
    for x, y in zip(output_tensor_list, found):
        x.detach().copy_(y.detach())
    return found


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None):
    """Parts of rows go to the other ranks, and what comes is one tensor, which is also put into `output`."""
    group = _known(group, "all_to_all_single")
    outputs = collectives._rows(output.detach(), output_split_sizes, group.size(), "all_to_all_single", "output")
    inputs = collectives._rows(input, input_split_sizes, group.size(), "all_to_all_single", "input")
    found = flambeau.cat(_AllToAll.apply(group, [x.shape for x in outputs], *inputs))
    output.detach().copy_(found.detach())
    return found
