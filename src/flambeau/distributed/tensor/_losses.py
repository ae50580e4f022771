"""cross_entropy and nll_loss on DTensors: cut along the batch, and inside loss_parallel() along the classes, too."""

import contextlib

import flambeau

from ...ops.dims import wrap_dim
from ...ops.kinds import OPS
from .. import _collectives as collectives
from .._values import ReduceOp
from ._call import _state
from ._dispatch import handler, local_op
from ._redistribute import redistributed
from .placement_types import Partial, Replicate, Shard


@contextlib.contextmanager
def loss_parallel():
    """A context in which cross_entropy, log_softmax and nll_loss leave logits cut along the classes as they are.

    Without it every rank gathers all logits first. `backward()` belongs into the context, too.

    >>> from flambeau.distributed.tensor.parallel import loss_parallel
    >>> with loss_parallel():
    ...     pass
    """
    before, _state.loss_parallel = _state.loss_parallel, True
    try:
        yield
    finally:
        _state.loss_parallel = before


class _Losses:
    """One call: the parts of its tensors, and over which mesh dimensions sums are to be taken.

    dtype: what sums are taken in, which the loss has, too: x's, or float32 for halves under autocast.
    """

    def __init__(self, x, target, weight, dtype):
        self.dtype = dtype
        self.kind, self.mesh, self.spec, self.shape = type(x), x.device_mesh, x._spec, tuple(x.shape)
        self.classes = 1 if x.ndim > 1 else 0
        keep = [self._kept(p) for p in x.placements]
        aims = [self._of_target(p) for p in keep]
        self.placements, self.aims = tuple(keep), tuple(aims)
        self.x = redistributed(x._local_tensor, x._spec, self.placements)
        self.target = self._part(target, self.aims).long()
        self.weight = None if weight is None else self._part(weight, (Replicate(),) * self.mesh.ndim)
        self.batch = [i for i, p in enumerate(keep) if isinstance(p, Shard) and p.dim != self.classes]
        self.cut = [i for i, p in enumerate(keep) if p.is_shard(self.classes)]
        sizes, offsets = self.spec.with_placements(self.placements).extent()
        self.first, self.count = offsets[self.classes], sizes[self.classes]
        if self.cut:
            self.x = self.x.to(dtype)

    def _kept(self, p):
        if not isinstance(p, Shard) or (p.dim == self.classes and not _state.loss_parallel):
            return Replicate()
        return p

    def _of_target(self, p):
        if not isinstance(p, Shard) or p.dim == self.classes:
            return Replicate()
        return Shard(p.dim - (p.dim > self.classes))

    def _part(self, tensor, placements):
        if not isinstance(tensor, self.kind):
            return self._plain(tensor, placements)
        return redistributed(tensor._local_tensor, tensor._spec, tuple(placements))

    def _plain(self, tensor, placements):
        """A plain tensor counts as replicated: labels are what programs leave plain."""
        spec = local_op(self.kind, self.spec, tensor, (Replicate(),) * self.mesh.ndim, tensor.shape,
                        tensor.dtype)._spec
        return redistributed(tensor, spec, tuple(placements))

    def reduced(self, value, dims, op=ReduceOp.SUM):
        """The reduction of a tensor over mesh dimensions."""
        for i in dims:
            value = value.contiguous()
            collectives.all_reduce(value, op, self.mesh.get_group(i))
        return value

    def weights(self, ignore_index):
        """What each label counts: 0 where it is ignored."""
        valid = self.target != ignore_index
        if self.weight is None:
            return valid.to(self.dtype)
        return self.weight[self.target.masked_fill(~valid, 0)] * valid

    def total(self, ignore_index):
        """What a mean is divided by."""
        return self.reduced(self.weights(ignore_index).sum(), self.batch)

    def made(self, local, placements, shape):
        """A DTensor on the mesh."""
        return local_op(self.kind, self.spec, local, placements, shape, local.dtype)

    def loss(self, local, reduction, ignore_index):
        """The result, of one loss for each label or of their sum on this rank."""
        if reduction == "none":
            shape = tuple(n for d, n in enumerate(self.shape) if d != self.classes)
            return self.made(local, self.aims, shape)
        if reduction == "mean":
            local = local / self.total(ignore_index)
        return self.made(local, [Partial() if i in self.batch else Replicate() for i in range(self.mesh.ndim)], ())

    def upstream(self, grad, reduction, ignore_index):
        """The gradient of each label's loss, or of their sum on this rank."""
        if reduction == "none":
            return self._part(grad, self.aims)
        grad = self._part(grad, (Replicate(),) * self.mesh.ndim)
        return grad / self.total(ignore_index) if reduction == "mean" else grad

    # --- cut along the classes ----------------------------------------------------------------------------------------

    def log_sum(self):
        """log(sum(exp(x))) over all classes, with the class dimension."""
        low = float("-inf")
        top = self.x.amax(self.classes, True) if self.count else self._column(low)
        top = self.reduced(top.clone(), self.cut, ReduceOp.MAX)
        total = (self.x - top).exp().sum(self.classes, True)
        return self.reduced(total, self.cut).log() + top

    def _column(self, value):
        shape = list(self.x.shape)
        shape[self.classes] = 1
        return self.x.new_full(shape, value)

    def own_label(self):
        """(labels within this rank's classes, which of them there are), with the class dimension."""
        target = self.target.unsqueeze(self.classes)
        own = (target >= self.first) & (target < self.first + self.count)
        return (target - self.first).masked_fill(~own, 0), own

    def picked(self):
        """x at the labels, of all ranks."""
        label, own = self.own_label()
        if not self.count:
            return self.reduced(self._column(0), self.cut)
        return self.reduced(self.x.gather(self.classes, label).masked_fill(~own, 0), self.cut)

    def at_labels(self, value):
        """Zeros, but `value` (one for each label) at this rank's labels."""
        label, own = self.own_label()
        zeros = self.x.new_zeros(self.x.shape)
        return zeros.scatter_add(self.classes, label, value * own) if self.count else zeros


def _checked(label_smoothing=0.0):
    if label_smoothing:
        raise NotImplementedError("cross_entropy: label_smoothing is not available for classes cut over ranks; leave "
                                  "out loss_parallel()")


def _forward(name, args, wide=False):
    x, target, weight, ignore_index, reduction, *smoothing = args
    call = _Losses(x, target, weight, flambeau.float32 if wide else x.dtype)
    if not call.cut:
        kind = "none" if reduction == "none" else "sum"
        options = smoothing and (*smoothing, wide)
        return call.loss(OPS[name](call.x, call.target, call.weight, ignore_index, kind, *options), reduction,
                         ignore_index)
    _checked(*smoothing)
    each = -call.picked() if name == "_nll_loss" else call.log_sum() - call.picked()
    each = each.squeeze(call.classes) * call.weights(ignore_index)
    return call.loss(each if reduction == "none" else each.sum(), reduction, ignore_index)


def _backward(name, args):
    grad, x, target, weight, ignore_index, reduction, *smoothing = args
    call = _Losses(x, target, weight, grad.dtype)
    up = call.upstream(grad, reduction, ignore_index)
    if not call.cut:
        kind = "none" if reduction == "none" else "sum"
        found = OPS[name](up, call.x, call.target, call.weight, ignore_index, kind, *smoothing)
        return call.made(found, call.placements, call.shape)
    each = (up * call.weights(ignore_index)).unsqueeze(call.classes)
    found = -call.at_labels(each)
    if name != "_nll_loss_backward":
        found = found + (call.x - call.log_sum()).exp() * each
    return call.made(found.to(x.dtype), call.placements, call.shape)


def _spread(*tensors):
    return all(hasattr(t, "placements") for t in tensors)


@handler("_nll_loss")
def nll_loss(given):
    """Of labels as numbers and log-probabilities."""
    return _forward(given.func.name, given.args) if _spread(given.args[0]) else NotImplemented


@handler("_cross_entropy")
def cross_entropy(given):
    """Of labels as numbers and logits."""
    *args, wide = given.args
    return _forward(given.func.name, args, wide) if _spread(args[0]) else NotImplemented


@handler("_cross_entropy_backward", "_nll_loss_backward")
def loss_backward(given):
    """The gradient by the logits, or log-probabilities."""
    return _backward(given.func.name, given.args) if _spread(given.args[1]) else NotImplemented


@handler("log_softmax", "_log_softmax_backward_data")
def log_softmax(given):
    """Along classes that are cut, inside loss_parallel()."""
    args, at = given.args, 1 if given.func.name == "log_softmax" else 2
    x, dim, dtype = args[0], args[at], (*args, None, None)[3]
    if not _state.loss_parallel or dim is None:
        return NotImplemented
    dim = wrap_dim(dim, x.ndim, "log_softmax")
    if not any(p.is_shard(dim) for p in x.placements):
        return NotImplemented
    groups = [x.device_mesh.get_group(i) for i, p in enumerate(x.placements) if p.is_shard(dim)]
    placements = x._spec.without_partial()
    local = redistributed(x._local_tensor, x._spec, placements)

    def reduced(value, op=ReduceOp.SUM):
        value = value.contiguous()
        for group in groups:
            collectives.all_reduce(value, op, group)
        return value

    if at == 2:
        out = redistributed(args[1]._local_tensor, args[1]._spec, placements)
        found = local - out.exp() * reduced(local.sum(dim, True))
    else:
        local = local if dtype is None else local.to(dtype)
        top = reduced(local.amax(dim, True) if local.shape[dim] else local.sum(dim, True) - float("inf"), ReduceOp.MAX)
        found = local - top - reduced((local - top).exp().sum(dim, True)).log()
    if at == 2 and dtype is not None:
        found = found.to(dtype)
    return local_op(type(x), x._spec, found, placements, x.shape, flambeau.as_tensor(found).dtype)
